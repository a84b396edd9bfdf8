/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-save.c - the files of a sandbox are copied exactly, and come back after
 * hibernation
 */
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "lib/durable-sandbox.h"
#include "os/tree_copy.h"

static struct counts before;

static void begin(void)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_saved saved;
	struct warren_sandbox *sb;
	char id[ID_LEN + 1];
	struct warren *w;

	world_enter(SECONDS);
	w = engine();
	/*
	 * The first sandbox creates directories that stay: create them before counting.
	 */
	sb = sandbox_make(w, &(struct warren_spec){ .durable = true,
						    .memory = 256 * MIB,
						    .disk = 400 * MIB });
	(void)strcpy(id, warren_id(sb));
	GOOD(warren_hibernate(sb, &saved, &err));
	GOOD(warren_forget_saved(w, id, &err));
	w = warren_close(w);
	bury();
	before = world_count();
}

static void finish(struct warren *w, const char *when)
{
	w = warren_close(w);
	bury();
	world_check(&before, when);
}

/* Creates a file of every kind, changes the image's files, and removes some of them. */
static const char *const fill =
	"set -e; cd /srv; mkdir -p d/e/f many; chmod 2751 d; chmod 0 d/e/f; chown 1000:1001 d/e;"
	"printf 'hello\\n' > plain; chmod 4755 plain; chown 12:34 plain; chmod 4755 plain;"
	"touch -d '2001-02-03 04:05:06.789' plain; ln plain d/hard; ln plain d/e/harder;"
	"ln -s /nowhere/at/all link; chown -h 55:66 link; mkfifo -m 640 pipe;"
	"truncate -s 100M holes; printf end | dd of=holes bs=1 seek=50000000 conv=notrunc status=none;"
	"printf secret > unreadable; chmod 000 unreadable; : > empty; printf x > \"$(printf 'odd\\nname\\t\\377')\";"
	"i=0; while [ $i -lt 300 ]; do mkdir many/$i; echo $i > many/$i/file; i=$((i+1)); done;"
	"rm -rf /etc/perl /etc/pam.d; mkdir /etc/pam.d; echo new > /etc/pam.d/only; rm /etc/login.defs;"
	"chmod 700 /etc/alternatives; echo more >> /etc/bash.bashrc;"
	"python3 - <<'EOF'\n"
	"import os, socket\n"
	"os.setxattr('/srv/plain', 'user.note', b'a\\0b')\n"
	"os.setxattr('/srv/d', 'user.dir', b'yes')\n"
	"socket.socket(socket.AF_UNIX).bind('/srv/socket')\n"
	"EOF\n";

/* Prints everything that a process can see of these files, one line for each. */
static const char *const view =
	"python3 - <<'EOF'\n"
	"import os, hashlib, stat\n"
	"for top in ('/srv', '/etc'):\n"
	"  for d, dirs, files in os.walk(top):\n"
	"    dirs.sort()\n"
	"    for name in ['.'] + sorted(dirs + files):\n"
	"      p = os.path.join(d, name); s = os.lstat(p)\n"
	"      if stat.S_ISSOCK(s.st_mode): continue\n"
	"      what = oct(s.st_mode), s.st_uid, s.st_gid, 0 if stat.S_ISDIR(s.st_mode) else (s.st_size, s.st_nlink, s.st_mtime_ns)\n"
	"      if stat.S_ISREG(s.st_mode): what += (hashlib.sha256(open(p,'rb').read()).hexdigest(),)\n"
	"      if stat.S_ISLNK(s.st_mode): what += (os.readlink(p),)\n"
	"      else: what += (sorted((k, os.getxattr(p, k)) for k in os.listxattr(p)),)\n"
	"      print(ascii(p), what)\n"
	"EOF\n";

static void run_well(struct warren_sandbox *sb, const char *const *argv)
{
	struct said said = sandbox_run(sb, argv);

	if (said.res.exit_code != 0)
		TAP_FAIL("exit status %d: %s", said.res.exit_code, said.err);
	free(said.out);
	free(said.err);
}

static void hibernate(struct warren_sandbox *sb, char id[ID_LEN + 1])
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_saved saved;

	(void)strcpy(id, warren_id(sb));
	GOOD(warren_hibernate(sb, &saved, &err));
}

static void comes_back(bool prepared, uint64_t disk)
{
	struct warren_spec spec = { .durable = true, .disk = disk, .memory = 256 * MIB };
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_sandbox *sb;
	char id[ID_LEN + 1];
	struct warren *w;
	char *first, *second;

	begin();
	w = engine();
	if (prepared) {
		GOOD(warren_prepare(w, id, &err));
		spec.id = id;
	}
	sb = sandbox_make(w, &spec);
	run_well(sb, SH(fill));
	first = strdup(sandbox_run(sb, SH(view)).out);
	OK(first && strlen(first) > 10000 && strstr(first, "harder"));
	hibernate(sb, id);
	EQ(count_durable(w, id), 0);
	spec.id = id;
	spec.restore = true;
	sb = sandbox_make(w, &spec);
	second = strdup(sandbox_run(sb, SH(view)).out);
	STREQ(second, first);
	/* The files can be changed, and the image's files still exist below them. */
	run_well(
		sb,
		SH("echo x >> /srv/plain && rm -rf /srv/many && test ! -e /etc/login.defs && "
		   "test -e /etc/passwd && test ! -e /srv/socket && mkdir /etc/perl"));
	/* The files are no longer saved, because the sandbox has them. */
	OK(warren_create(w, &spec, &sb, &err) < 0);
	free(first);
	free(second);
	sb = adopt(w, id);
	sandbox_destroy(sb);
	finish(w, "a sandbox that hibernated");
}

TEST(files_of_every_kind_come_back_after_hibernation)
{
	comes_back(false, 0);
}

TEST(files_of_a_sandbox_from_a_prepared_part_come_back)
{
	comes_back(true, 0);
}

TEST(files_of_a_sandbox_on_a_disk_come_back)
{
	comes_back(false, 400 * MIB);
}

TEST(a_sandbox_without_saved_files_cannot_be_restored)
{
	struct warren_spec spec = { .durable = true, .restore = true };
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_sandbox *sb = NULL;
	char id[ID_LEN + 1];
	struct warren *w;

	begin();
	w = engine();
	id_make(id);
	spec.id = id;
	EQ(warren_create(w, &spec, &sb, &err), -EREMOTEIO);
	OK(strstr(err.msg, "saved files"));
	sb = make_durable(w);
	hibernate(sb, id);
	GOOD(warren_forget_saved(w, id, &err));
	GOOD(warren_forget_saved(w, id, &err));
	EQ(warren_create(w, &spec, &sb, &err), -EREMOTEIO);
	finish(w, "sandboxes without files");
}

/* Create a directory to which files are saved. */
static int make_dir(const char *name)
{
	AUTO_FREE char *path = sandbox_path("%s", name);
	int fd;

	OK(mkdir(path, 0755) == 0);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OK(fd >= 0);
	return fd;
}

TEST(saved_files_form_a_layer)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_sandbox *sb;
	struct warren_saved saved;
	struct stat a, b;
	char mark[8] = "";
	struct warren *w;
	int dir, etc;

	begin();
	w = engine();
	sb = make_durable(w);
	run_well(sb, SH(fill));
	dir = make_dir("layer");
	GOOD(warren_save_files(sb, dir, 0, &saved, &err));
	OK(saved.files > 600 && saved.bytes > 300 && saved.bytes < 50 * MIB);
	OK(saved.frozen_ns > 0);
	/* Owners are those that the sandbox sees. */
	EQ(fstatat(dir, "srv/plain", &a, AT_SYMLINK_NOFOLLOW), 0);
	EQ(fstatat(dir, "srv/d/e/harder", &b, AT_SYMLINK_NOFOLLOW), 0);
	OK(a.st_ino == b.st_ino && a.st_nlink == 3);
	EQ(a.st_uid, 12);
	EQ(a.st_gid, 34);
	EQ(a.st_mode & 07777, 04755);
	EQ(fstatat(dir, "srv/holes", &a, AT_SYMLINK_NOFOLLOW), 0);
	OK(a.st_size == 100 * 1048576 && a.st_blocks < 1000);
	EQ(fstatat(dir, "etc/login.defs", &a, AT_SYMLINK_NOFOLLOW), 0);
	OK(S_ISCHR(a.st_mode) && a.st_rdev == 0);
	etc = openat(dir, "etc/pam.d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	EQ(fgetxattr(etc, "user.overlay.opaque", mark, sizeof(mark)), 1);
	EQ(mark[0], 'y');
	(void)close(etc);
	/* Files that Warren wrote itself are not saved, and the sandbox continues. */
	OK(fstatat(dir, "etc/hosts", &a, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT);
	run_well(sb, SH("cat /srv/plain"));
	(void)close(dir);
	sandbox_destroy(sb);
	finish(w, "a saved sandbox");
}

/* For a sandbox that is destroyed next, no process must be stopped: they are killed. */
TEST(a_copy_can_kill_all_processes_first)
{
	static const char *const find =
		"for n in /proc/[0-9]*; do test \"$(cat $n/comm)\" != left || exit 3; done";
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_saved saved;
	struct warren_sandbox *sb;
	struct said said;
	struct warren *w;
	int dir;

	begin();
	w = engine();
	sb = make_durable(w);
	run_well(sb, SH("cp /bin/sleep /srv/left; (setsid /srv/left 1000 >/dev/null "
			"2>&1 </dev/null &); echo x >/srv/f; "
			"until grep -qsx left /proc/[0-9]*/comm; do sleep 0.01; done"));
	said = sandbox_run(sb, SH(find));
	EQ(said.res.exit_code, 3);
	free(said.out);
	free(said.err);
	dir = make_dir("killed");
	GOOD(warren_save_files(sb, dir, WARREN_SAVE_KILL, &saved, &err));
	EQ(saved.frozen_ns, 0);
	EQ(faccessat(dir, "srv/f", F_OK, 0), 0);
	run_well(sb, SH(find));
	(void)close(dir);
	sandbox_destroy(sb);
	finish(w, "a copy that killed the processes");
}

/*
 * A process writes a number to one file and then to another one. If the copy shows one
 * moment, the second number equals the first or is one less.
 */
TEST(a_copy_shows_the_files_at_one_moment)
{
	struct warren_error err = WARREN_ERROR_INIT;
	const char *const *writer = SH(
		"( i=0; while :; do i=$((i+1)); echo $i > /srv/a.new; mv /srv/a.new /srv/a;"
		" echo $i > /srv/b.new; mv /srv/b.new /srv/b; done ) >/dev/null 2>&1 & sleep 0.2");
	struct warren_sandbox *sb;
	struct warren *w;

	begin();
	w = engine();
	sb = make_durable(w);
	run_well(sb, writer);
	for (int i = 0; i < 20; i++) {
		char name[16], a[32] = "", b[32] = "";
		struct warren_saved saved;
		long first, second;
		int dir;

		(void)snprintf(name, sizeof(name), "copy%d", i);
		dir = make_dir(name);
		GOOD(warren_save_files(sb, dir, 0, &saved, &err));
		OK(fd_read_file_at(dir, "srv/a", a, sizeof(a)) > 0);
		OK(fd_read_file_at(dir, "srv/b", b, sizeof(b)) > 0);
		first = strtol(a, NULL, 10);
		second = strtol(b, NULL, 10);
		OK(first == second || first == second + 1);
		(void)close(dir);
	}
	run_well(sb, SH("a=$(cat /srv/a); sleep 0.3; test $(cat /srv/a) != $a"));
	sandbox_destroy(sb);
	finish(w, "a sandbox that was copied while it wrote");
}

TEST(directories_that_are_too_deep_are_refused)
{
	static const char *const deep = "python3 - <<'EOF'\n"
					"import os\n"
					"os.chdir('/srv')\n"
					"for i in range(%s):\n"
					"  os.mkdir('d'); os.chdir('d')\n"
					"EOF\n";
	static const char *const levels[] = { "400", "700" };
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_sandbox *sb;
	struct warren_saved saved;
	struct warren *w;

	begin();
	w = engine();
	for (size_t i = 0; i < ARRAY_SIZE(levels); i++) {
		char script[512];
		int dir = make_dir(levels[i]), r;

		sb = make_durable(w);
		(void)snprintf(script, sizeof(script), deep, levels[i]);
		run_well(sb, SH(script));
		r = warren_save_files(sb, dir, 0, &saved, &err);
		EQ(r, i == 0 ? 0 : -ELOOP);
		(void)close(dir);
		sandbox_destroy(sb);
	}
	OK(strstr(err.msg, "500 levels"));
	finish(w, "deep directories");
}

TEST(a_full_destination_is_an_error_and_the_sandbox_continues)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_FREE char *path = sandbox_path("small");
	struct warren_sandbox *sb;
	struct warren_saved saved;
	struct warren *w;
	int dir;

	begin();
	w = engine();
	sb = make_durable(w);
	run_well(sb, SH("head -c 3000000 /dev/urandom > /srv/large"));
	OK(mkdir(path, 0755) == 0);
	EQ(mount("small", path, "tmpfs", 0, "size=1m"), 0);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	EQ(warren_save_files(sb, dir, 0, &saved, &err), -ENOSPC);
	OK(strstr(err.msg, "bytes are free"));
	run_well(sb, SH("test -s /srv/large && echo more > /srv/other"));
	(void)close(dir);
	EQ(umount(path), 0);
	sandbox_destroy(sb);
	finish(w, "a full destination");
}

/* What an engine leaves in the state directory while it copies the files of @id. */
static void leave_work(const char *id, bool exists, bool create)
{
	static const char *const names[] = { "saved/.new-",  "saved/.frozen-",
					     "saved/.part-", "saved/.image-",
					     "undo/.new-",   "undo/.busy-" };
	AUTO_FREE char *state = sandbox_path("state");

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char path[4096];
		int fd = -1;

		(void)snprintf(path, sizeof(path), "%s/%.*s", state,
			       (int)strcspn(names[i], "/"), names[i]);
		(void)mkdir(path, 0700);
		(void)snprintf(path, sizeof(path), "%s/%s%s", state, names[i], id);
		if (create)
			fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		if (fd >= 0)
			(void)close(fd);
		EQ(access(path, F_OK) == 0, exists);
	}
}

TEST(an_engine_leaves_the_work_of_another_one_alone)
{
	AUTO_FREE char *lock = NULL, *undo = NULL;
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren *w, *other = NULL;
	struct warren_sandbox *sb;
	char id[ID_LEN + 1];

	begin();
	w = engine();
	sb = make_durable(w);
	(void)strcpy(id, warren_id(sb));
	leave_work(id, true, true);
	GOOD(open_named("other", &other, &err));
	leave_work(id, true, false);
	other = warren_close(other);
	/* The control: the next engine of the same name removes all of it. */
	sb = warren_release(sb);
	w = warren_close(w);
	w = engine();
	leave_work(id, false, false);
	sandbox_destroy(adopt(w, id));
	/* What stays of an engine and of each kind of work. */
	lock = sandbox_path("run/engines/other");
	undo = sandbox_path("state/undo");
	EQ(unlink(lock), 0);
	EQ(rmdir(undo), 0);
	finish(w, "another engine");
}

/* ------------------------------------------------------------------ tree_copy() */

TEST(a_device_is_refused)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct tree_copy copy = { 0 };
	int from = make_dir("from"), to = make_dir("to");

	/* A whiteout, which is a device node with number 0, is accepted. */
	EQ(mknodat(from, "whiteout", S_IFCHR | 0644, 0), 0);
	EQ(tree_copy(from, to, &copy, &err), 0);
	EQ(copy.files, 1);
	EQ(mknodat(from, "null", S_IFCHR | 0644, makedev(1, 3)), 0);
	(void)close(to);
	to = make_dir("second");
	EQ(tree_copy(from, to, &copy, &err), -EPERM);
	OK(strstr(err.msg, "/null' is a device"));
	(void)close(from);
	(void)close(to);
}

TEST(a_limit_on_bytes_is_enforced)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct tree_copy copy = { .max_bytes = 9 };
	int from = make_dir("limited"), to = make_dir("within"), file;

	file = openat(from, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	EQ(write(file, "123456789", 9), 9);
	EQ(tree_copy(from, to, &copy, &err), 0);
	EQ(write(file, "0", 1), 1);
	(void)close(to);
	to = make_dir("beyond");
	EQ(tree_copy(from, to, &copy, &err), -EFBIG);
	(void)close(file);
	(void)close(from);
	(void)close(to);
}

TEST_MAIN()
