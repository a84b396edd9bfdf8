/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-db-faults.c - acknowledged writes survive every kill, full disk or failure
 *
 * SQLite allows its system calls to be replaced, so that call number N fails; fsync is
 * defined here, and counted.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "lib/state.h"

static int syncs;      /* number of calls of fsync */
static int sync_error; /* the error */

int fdatasync(int fd) __attribute__((visibility("default")));
int fsync(int fd) __attribute__((visibility("default")));

int fdatasync(int fd)
{
	syncs++;
	if (sync_error) {
		errno = sync_error;
		return -1;
	}
	return (int)syscall(SYS_fdatasync, fd);
}

int fsync(int fd)
{
	return fdatasync(fd);
}

/* ------------------------------------------------- writes that wait for the disk */

TEST(only_writes_that_must_survive_a_power_cut_wait_for_the_disk)
{
	struct sandbox_row row = a_sandbox(DB_LOCAL);
	struct token_row token = { .tenant = DB_LOCAL };
	char id[ID_LEN + 1], secret[DB_SECRET_LEN + 1];
	const uint64_t limit[DB_QUOTA_MAX] = { 1, 1, 1, 1, 1 };
	const struct warren_result result = { 0 };
	struct exec_row ex = an_exec(row.id, 1);
	struct db *db;

	state_make();
	db = state_open();
	GOOD(db_set_meta(db, "key", "value", &err));
	syncs = 0;
	row.state = SANDBOX_CREATING;
	GOOD(db_insert_sandboxes(db, &row, 1, NULL, &err));
	GOOD(db_start_sandbox(db, row.id, "[]", NOW, &err));
	GOOD(db_insert_exec(db, &ex, &err));
	GOOD(db_finish_exec(db, ex.id, NOW, &result, &err));
	GOOD(db_touch_sandbox(db, row.id, NOW, &err));
	EQ(syncs, 0);
	GOOD(db_make_token(db, &token, id, secret, &err));
	EQ(syncs, 1);
	GOOD(db_put_tenant(db, "alice", limit, &err));
	EQ(syncs, 2);
	GOOD(db_move_sandbox(db, row.id, SANDBOX_RUNNING, SANDBOX_STOPPED, NULL, NOW,
			     &err));
	EQ(syncs, 2);
	GOOD(db_revoke_token(db, NULL, id, NOW, &err));
	EQ(syncs, 3);
	GOOD(db_delete_sandbox(db, row.id, &err));
	GOOD(db_touch_token(db, &token, NOW, &err));
	EQ(syncs, 3);
	db_close(db);
}

TEST(unsynced_data_is_not_acknowledged)
{
	struct token_row row = { .tenant = DB_LOCAL };
	char id[ID_LEN + 1], secret[DB_SECRET_LEN + 1];
	struct db *db;
	uint64_t n = 9;

	state_make();
	db = state_open();
	sync_error = EIO;
	EQ(db_make_token(db, &row, id, secret, &err), -EIO);
	sync_error = 0;
	GOOD(db_count_tokens(db, NOW, &n, &err));
	EQ(n, 0);
	GOOD(db_make_token(db, &row, id, secret, &err));
	GOOD(db_count_tokens(db, NOW, &n, &err));
	EQ(n, 1);
	GOOD(db_check(db, &err));
	db_close(db);
}

/* ------------------------------------------------------------- kills */

#define NOTE_SIZE (1 + ID_LEN)

/* '+' it exists, '?' it may be being deleted, '-' it is gone. */
static void note(int fd, char what, const char *id)
{
	char text[NOTE_SIZE + 1];

	(void)snprintf(text, sizeof(text), "%c%s", what, id);
	if (write(fd, text, NOTE_SIZE) != NOTE_SIZE)
		_exit(2);
}

static _Noreturn void write_for_ever(int fd)
{
	static const struct db_label label = { "k", "v" };
	struct db *db = NULL;

	if (db_open(state_path, &db, &err) < 0)
		_exit(3);
	for (uint32_t i = 1;; i++) {
		struct sandbox_row row = a_sandbox(DB_LOCAL);
		struct exec_row ex = an_exec(row.id, i);

		row.labels = &label;
		row.n_labels = 1;
		if (db_insert_sandboxes(db, &row, 1, NULL, &err) < 0)
			_exit(4);
		note(fd, '+', row.id);
		if (db_insert_exec(db, &ex, &err) < 0)
			_exit(5);
		if (i % 3 != 0)
			continue;
		note(fd, '?', row.id);
		if (db_delete_sandbox(db, row.id, &err) < 0)
			_exit(6);
		note(fd, '-', row.id);
	}
}

static void check_note(struct db *db, const char *text, const char *next, size_t *n)
{
	AUTO_SANDBOX_ROW struct sandbox_row row = { 0 };
	char id[ID_LEN + 1] = "";
	int r;

	(void)memcpy(id, text + 1, ID_LEN);
	r = db_get_sandbox(db, NULL, id, &row, &err);
	if (text[0] == '+' && (!next || memcmp(next, "?", 1) != 0)) {
		GOOD(r);
		++*n;
	}
	if (text[0] == '-') {
		EQ(r, -ENOENT);
		++*n;
	}
}

/* Run a writer and kill it. Return how many acknowledged objects were checked. */
static size_t one_life(useconds_t us)
{
	static char notes[1 << 20];
	size_t size = 0, n = 0;
	ssize_t got;
	struct db *db;
	int p[2], status = 0;
	pid_t pid;

	OK(pipe2(p, O_CLOEXEC) == 0);
	(void)fflush(stdout);
	pid = fork();
	if (pid == 0)
		write_for_ever(p[1]);
	(void)close(p[1]);
	/* Do not kill it while it opens the database, because later runs need a complete
	 * initial state. */
	EQ(read(p[0], notes, NOTE_SIZE), NOTE_SIZE);
	size = NOTE_SIZE;
	(void)usleep(us);
	EQ(kill(pid, SIGKILL), 0);
	EQ(waitpid(pid, &status, 0), pid);
	OK(WIFSIGNALED(status));
	while ((got = read(p[0], notes + size, sizeof(notes) - size)) > 0)
		size += (size_t)got;
	(void)close(p[0]);

	db = state_open();
	GOOD(db_check(db, &err));
	size -= size % NOTE_SIZE;
	for (size_t i = 0; i < size; i += NOTE_SIZE)
		check_note(db, notes + i,
			   i + NOTE_SIZE < size ? notes + i + NOTE_SIZE : NULL, &n);
	db_close(db);
	return n;
}

TEST(acknowledged_writes_survive_kill_9)
{
	size_t n = 0;

	state_make();
	for (int i = 0; i < 60; i++)
		n += one_life((useconds_t)(i * 211));
	(void)printf("# %zu acknowledged changes were there\n", n);
	OK(n > 100);
}

/* --------------------------------------------------- system calls that fail */

/* Call number fail_at of SQLite fails with fail_code; 0: none fails. */
static int calls, fail_at, fail_code;

static bool fails(void)
{
	if (++calls != fail_at)
		return false;
	errno = fail_code;
	return true;
}

static ssize_t fake_pwrite(int fd, const void *data, size_t n, off_t at)
{
	return fails() ? -1 : pwrite(fd, data, n, at);
}

static int fake_open(const char *path, int flags, int mode)
{
	return fails() ? -1 : open(path, flags, mode); /* NOLINT(android-cloexec-open) */
}

static int fake_ftruncate(int fd, off_t size)
{
	return fails() ? -1 : ftruncate(fd, size);
}

static void replace_calls(void)
{
	static const struct {
		const char *name;
		sqlite3_syscall_ptr fn;
	} fakes[] = {
		{ "pwrite", (sqlite3_syscall_ptr)fake_pwrite },
		{ "pwrite64", (sqlite3_syscall_ptr)fake_pwrite },
		{ "open", (sqlite3_syscall_ptr)fake_open },
		{ "ftruncate", (sqlite3_syscall_ptr)fake_ftruncate },
	};
	sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);

	for (size_t i = 0; i < ARRAY_SIZE(fakes); i++)
		OK(vfs->xSetSystemCall(vfs, fakes[i].name, fakes[i].fn) == SQLITE_OK);
}

/* Do all operations on a sandbox, up to the first one that fails. */
static int a_life(struct db *db, const struct sandbox_row *row)
{
	const struct warren_result result = { .exit_code = 0 };
	struct exec_row ex = an_exec(row->id, 1);
	int r = db_insert_sandboxes(db, row, 1, NULL, &err);

	if (r == 0)
		r = db_start_sandbox(db, row->id, "[]", NOW, &err);
	if (r == 0)
		r = db_insert_exec(db, &ex, &err);
	if (r == 0)
		r = db_finish_exec(db, ex.id, NOW, &result, &err);
	if (r == 0)
		r = db_move_sandbox(db, row->id, SANDBOX_RUNNING, SANDBOX_STOPPED, NULL,
				    NOW, &err);
	if (r == 0)
		r = db_delete_sandbox(db, row->id, &err);
	return r;
}

static void sweep(int code)
{
	struct db *db = state_open();
	int failed = 0, r;

	for (int at = 1; at < 1000; at++) {
		struct sandbox_row row = a_sandbox(DB_LOCAL);

		calls = 0;
		fail_at = at;
		fail_code = code;
		r = a_life(db, &row);
		fail_at = 0;
		if (r == 0 && calls < at)
			break;
		if (r < 0) {
			EQ(r, -code);
			failed++;
			r = db_delete_sandbox(db, row.id, &err);
			OK(r == 0 || r == -ENOENT);
		}
		row = a_sandbox(DB_LOCAL);
		GOOD(a_life(db, &row));
	}
	OK(failed >= 6);
	GOOD(db_check(db, &err));
	db_close(db);
}

TEST(each_failed_write_is_reported_and_does_no_harm)
{
	static const int codes[] = { EIO, ENOSPC };

	state_make();
	replace_calls();
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		sweep(codes[i]);
}

TEST(each_failed_call_while_opening_is_reported_and_does_no_harm)
{
	struct db *db = NULL;
	int failed = 0, r = -1;

	replace_calls();
	state_make();
	for (int at = 1; at < 1000; at++) {
		calls = 0;
		fail_at = at;
		fail_code = EMFILE;
		r = db_open(state_path, &db, &err);
		fail_at = 0;
		failed += r < 0;
		if (r == 0)
			db = db_close(db);
		if (r == 0 && calls < at)
			break;
		/*
		 * SQLite opens a file that cannot be written read-only, which is not
		 * enough.
		 */
		if (r != 0 && r != -EMFILE && r != -EROFS && r != -EIO)
			TAP_FAIL("call %d: %d, %s", at, r, err.msg);
		db = state_open();
		GOOD(db_check(db, &err));
		db = db_close(db);
		state_remove();
		EQ(mkdir(state_dir, 0700), 0);
	}
	EQ(r, 0);
	OK(failed > 3);
}

/* ------------------------------------------------------------- full disk */

/* Mount a separate filesystem for this process, which disappears with it. */
static void small_disk(const char *options)
{
	SKIP_UNLESS(geteuid() == 0, "mounting needs root");
	SKIP_UNLESS(unshare(CLONE_NEWNS) == 0, "no mount namespace");
	SKIP_UNLESS(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0,
		    "mounts are shared");
	state_make();
	EQ(mount("tmpfs", state_dir, "tmpfs", MS_NODEV | MS_NOSUID, options), 0);
}

TEST(a_full_disk_is_reported_until_space_is_free)
{
	char ballast[160], last[ID_LEN + 1] = "";
	AUTO_SANDBOX_ROW struct sandbox_row got = { 0 };
	static const char zeros[1 << 18];
	struct sandbox_row row;
	struct db *db;
	int fd, n = 0, r;

	small_disk("size=1m");
	(void)snprintf(ballast, sizeof(ballast), "%s/ballast", state_dir);
	fd = open(ballast, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	EQ(write(fd, zeros, sizeof(zeros)), sizeof(zeros));
	(void)close(fd);
	db = state_open();
	for (; n < 10000; n++) {
		row = a_sandbox(DB_LOCAL);
		r = db_insert_sandboxes(db, &row, 1, NULL, &err);
		if (r < 0)
			break;
		(void)strcpy(last, row.id);
	}
	EQ(r, -ENOSPC);
	OK(n > 10);
	EQ(db_insert_sandboxes(db, &row, 1, NULL, &err), -ENOSPC);
	GOOD(db_get_sandbox(db, NULL, last, &got, &err));
	EQ(unlink(ballast), 0);
	GOOD(db_insert_sandboxes(db, &row, 1, NULL, &err));
	GOOD(db_delete_sandbox(db, last, &err));
	GOOD(db_check(db, &err));
	db = db_close(db);
	db = state_open();
	GOOD(db_check(db, &err));
	db_close(db);
	(void)umount2(state_dir, MNT_DETACH);
}

TEST(a_read_only_disk_is_refused)
{
	struct db *db;

	small_disk("size=4m");
	db = state_open();
	db = db_close(db);
	EQ(mount(NULL, state_dir, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
	EQ(db_open(state_path, &db, &err), -EROFS);
	OK(strstr(err.msg, state_path));
	EQ(mount(NULL, state_dir, NULL, MS_REMOUNT, NULL), 0);
	db = state_open();
	db_close(db);
	(void)umount2(state_dir, MNT_DETACH);
}

/* ------------------------------------------------------------ checkpoints */

static void *checkpoint(void *arg)
{
	struct warren_error e = WARREN_ERROR_INIT;

	(void)arg;
	return (void *)(intptr_t)db_checkpoint(state_path, &e);
}

TEST(a_checkpoint_can_run_during_other_calls)
{
	struct db *db;
	int done = 0;

	state_make();
	db = state_open();
	for (int i = 0; i < 3000; i++) {
		struct sandbox_row row = a_sandbox(DB_LOCAL);
		bool wanted = db_wants_checkpoint(db);
		pthread_t thread;
		void *r = NULL;

		if (wanted)
			EQ(pthread_create(&thread, NULL, checkpoint, NULL), 0);
		GOOD(db_insert_sandboxes(db, &row, 1, NULL, &err));
		if (wanted) {
			EQ(pthread_join(thread, &r), 0);
			EQ((intptr_t)r, 0);
			row = a_sandbox(DB_LOCAL);
			GOOD(db_insert_sandboxes(db, &row, 1, NULL, &err));
			done++;
		}
	}
	OK(done > 0);
	OK(done < 100);
	GOOD(db_check(db, &err));
	db_close(db);
}

TEST_MAIN()
