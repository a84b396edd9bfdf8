/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-mount-race.c - directories of this machine that sandboxes may mount, while a
 * process exchanges them
 *
 * The configuration allows a name, but what is mounted is a directory. A sandbox that can
 * write below that name repeatedly exchanges a directory and a link to another one, so
 * that one is checked and the other is mounted.
 */
#include "lib/warden-api.h"

#include <pthread.h>
#include <sys/syscall.h>

#include "os/mount.h"

#ifndef RENAME_EXCHANGE
#define RENAME_EXCHANGE (1 << 1)
#endif

#define ID          "mmmmmmmmmmmm"
#define GRANTED_MIN 150 /* number of granted requests to inspect */
#define REFUSED_MIN 20
#define TRIES       1000000 /* a refusal takes microseconds, so there may be many in a row */
#define CONTROL     200000 /* enough tries to win any race */

/* allowed/x is a directory, or a link to secret; a file in each tells them apart. */
static char *allowed, *x, *other, *secret;
static bool stop;

static void put_file(const char *dir, const char *name)
{
	char *path = NULL;
	int fd;

	OK(asprintf(&path, "%s/%s", dir, name) > 0);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	OK(fd >= 0);
	(void)close(fd);
	free(path);
}

static void make_places(void)
{
	allowed = sandbox_path("allowed");
	x = sandbox_path("allowed/x");
	other = sandbox_path("allowed/other");
	secret = sandbox_path("secret");
	sandbox_remove_tree(allowed); /* leftovers of another test */
	sandbox_remove_tree(secret);
	EQ(mkdir(allowed, 0755), 0);
	EQ(mkdir(x, 0755), 0);
	EQ(mkdir(secret, 0755), 0);
	put_file(x, "fine");
	put_file(secret, "secret");
	EQ(symlink("../secret", other), 0);
}

static void *exchange(void *arg UNUSED)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED))
		(void)syscall(SYS_renameat2, AT_FDCWD, x, AT_FDCWD, other,
			      RENAME_EXCHANGE);
	return NULL;
}

static void exchange_begin(pthread_t *ret)
{
	stop = false;
	EQ(pthread_create(ret, NULL, exchange, NULL), 0);
}

static void exchange_end(pthread_t thread)
{
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	EQ(pthread_join(thread, NULL), 0);
}

static bool has(int dir, const char *name)
{
	return faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Open /m inside the sandbox through its init; -1: it does not exist. */
static int look_inside(int line)
{
	struct ucred cred = { 0 };
	socklen_t len = sizeof(cred);
	char path[64];

	EQ(getsockopt(line, SOL_SOCKET, SO_PEERCRED, &cred, &len), 0);
	OK(cred.pid > 0);
	(void)snprintf(path, sizeof(path), "/proc/%d/root/m", (int)cred.pid);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int create_with(const char *source, bool read_only)
{
	struct warren_mount mount = { .source = source,
				      .target = "/m",
				      .read_only = read_only };
	struct warren_spec spec = modest();

	spec.mounts = &mount;
	spec.n_mounts = 1;
	return create("native", ID, &spec);
}

static void forget(void)
{
	GRANTED(api_sandbox(WIRE_DESTROY, "native", ID));
}

/* ---------------------------------------------------------------------------- rules */

/* A rule in the form of the configuration. */
static const char *rule(const char *dir, const char *end)
{
	char *text = NULL;

	OK(asprintf(&text, "%s%s", dir, end) > 0);
	return text;
}

TEST(rules_with_rw_permit_writing_and_those_with_ro_do_not)
{
	AUTO_FREE char *ro = sandbox_path("secret/ro"),
		       *beside = sandbox_path("allowed-not");

	make_places();
	EQ(mkdir(ro, 0755), 0);
	EQ(mkdir(beside, 0755), 0);
	mount_rules[0] = rule(allowed, ":rw");
	mount_rules[1] = rule(ro, ":ro");
	warden_begin();
	GRANTED(create_with(x, false));
	OK(has(look_inside(api.fd), "fine"));
	forget();
	GRANTED(create_with(x, true));
	forget();
	GRANTED(create_with(ro, true));
	forget();
	REFUSED(EPERM, create_with(ro, false));
	REFUSED(EPERM, create_with(secret, true));
	REFUSED(EPERM, create_with("/", true));
	REFUSED(EPERM,
		create_with(beside, true)); /* a name that only begins in the same way */
	warden_end();
}

TEST(no_component_of_a_mount_path_leads_outside)
{
	AUTO_FREE char *up = sandbox_path("allowed/../secret");
	AUTO_FREE char *link = sandbox_path("allowed/other");
	AUTO_FREE char *below = sandbox_path("allowed/other/secret");
	AUTO_FREE char *absolute = sandbox_path("allowed/absolute");
	AUTO_FREE char *magic = sandbox_path("allowed/magic");
	AUTO_FREE char *inner = sandbox_path("allowed/inner");

	make_places();
	EQ(symlink(secret, absolute), 0);
	EQ(symlink("/proc/self/root", magic), 0);
	EQ(symlink("x", inner), 0);
	mount_rules[0] = rule(allowed, ":rw");
	mount_rules[1] = rule(
		absolute, ":ro"); /* below a rule, any user may have created the link */
	warden_begin();
	REFUSED(EPERM, create_with(up, true));
	REFUSED(EPERM, create_with(link, true));
	REFUSED(EPERM, create_with(below, true));
	REFUSED(EPERM, create_with(absolute, true));
	REFUSED(EPERM, create_with(magic, true));
	/* A link that stays inside is followed. */
	GRANTED(create_with(inner, false));
	OK(has(look_inside(api.fd), "fine"));
	forget();
	warden_end();
}

/* ---------------------------------------------------------------------------- races */

/*
 * Check by name and then open by name, which loses the race: this shows that the test can
 * detect it.
 */
static bool lose_once(void)
{
	char real[PATH_MAX];
	int fd;
	bool lost;

	if (!realpath(x, real) || strcmp(real, x) != 0)
		return false;
	fd = open(x, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	lost = fd >= 0 && has(fd, "secret");
	if (fd >= 0)
		(void)close(fd);
	return lost;
}

TEST(exchanging_directories_defeats_a_check_by_name)
{
	pthread_t thread;
	bool lost = false;

	make_places();
	exchange_begin(&thread);
	for (int i = 0; i < CONTROL && !lost; i++)
		lost = lose_once();
	exchange_end(thread);
	OK(lost);
}

TEST(exchanging_directories_does_not_defeat_the_warden)
{
	pthread_t thread;
	size_t granted = 0, refused = 0;

	make_places();
	mount_rules[0] = rule(allowed, ":rw");
	warden_begin();
	exchange_begin(&thread);
	for (int i = 0; i < TRIES && (granted < GRANTED_MIN || refused < REFUSED_MIN);
	     i++) {
		int r = create_with(x, false), at;

		if (r < 0) {
			OK(r == -EPERM || r == -ENOENT);
			refused++;
			continue;
		}
		granted++;
		at = look_inside(api.fd);
		OK(at >= 0);
		OK(!has(at, "secret"));
		OK(has(at, "fine"));
		(void)close(at);
		forget();
	}
	exchange_end(thread);
	OK(granted >= GRANTED_MIN); /* the check saw the directory */
	OK(refused >= REFUSED_MIN); /* the exchange happened */
	warden_end();
}

/*
 * In library calls, too, the descriptor determines what is mounted, even if another file
 * has its name now.
 */
TEST(a_volume_is_mounted_by_its_descriptor_not_its_name)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_mount mount = { .source = NULL, .target = "/m" };
	struct warren_sandbox *sb = NULL;
	struct warren *w;
	struct said s;

	make_places();
	world_enter(SECONDS);
	mount.source = x;
	mount.source_fd = open(x, O_PATH | O_CLOEXEC);
	OK(mount.source_fd > 0);
	EQ(syscall(SYS_renameat2, AT_FDCWD, x, AT_FDCWD, other, RENAME_EXCHANGE), 0);
	w = engine();
	GOOD(warren_create(w, &(struct warren_spec){ .mounts = &mount, .n_mounts = 1 },
			   &sb, &err));
	s = sandbox_run(sb, SH("ls /m"));
	STREQ(s.out, "fine\n");
	GOOD(warren_destroy(sb, &err));
	/* Without a descriptor, the file with that name is mounted. */
	mount.source_fd = 0;
	GOOD(warren_create(w, &(struct warren_spec){ .mounts = &mount, .n_mounts = 1 },
			   &sb, &err));
	s = sandbox_run(sb, SH("ls /m"));
	STREQ(s.out, "secret\n");
	GOOD(warren_destroy(sb, &err));
	mount.source_fd = -1;
	FAILS(EINVAL,
	      warren_create(w, &(struct warren_spec){ .mounts = &mount, .n_mounts = 1 },
			    &sb, &err));
	w = warren_close(w);
}

/*
 * A shim is another process. It is told which file was checked, and accepts no other file
 * of that name.
 */
TEST(a_shim_uses_only_the_file_that_was_checked)
{
	AUTO_FREE char *state = sandbox_path("state"), *run = sandbox_path("run");
	struct warren_options options = { .backend = "command",
					  .backend_config = "{\"exec\": [\"{argv}\"]}",
					  .state_dir = state,
					  .run_dir = run };
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_mount mount = { .target = "/m" };
	struct warren_spec spec = { .mounts = &mount, .n_mounts = 1 };
	struct warren_sandbox *sb = NULL;
	struct warren *w = NULL;

	make_places();
	world_enter(SECONDS);
	mount.source = x;
	mount.source_fd = open(x, O_PATH | O_CLOEXEC);
	GOOD(warren_open(&options, &w, &err));
	/*
	 * The file is the right one; only after this check does the backend report that
	 * it cannot mount.
	 */
	FAILS(EOPNOTSUPP, warren_create(w, &spec, &sb, &err));
	EQ(syscall(SYS_renameat2, AT_FDCWD, x, AT_FDCWD, other, RENAME_EXCHANGE), 0);
	FAILS(ESTALE, warren_create(w, &spec, &sb, &err));
	EQ(syscall(SYS_renameat2, AT_FDCWD, x, AT_FDCWD, other, RENAME_EXCHANGE), 0);
	FAILS(EOPNOTSUPP, warren_create(w, &spec, &sb, &err));
	w = warren_close(w);
}

TEST_MAIN()
