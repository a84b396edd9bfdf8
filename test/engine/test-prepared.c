/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-prepared.c - a sandbox from a prepared part is the same as any other sandbox
 *
 * There is no visible difference inside, whatever the spec; and a part leaves nothing
 * behind, whenever it, its creator or its init ends.
 */
#include <sys/socket.h>

#include "lib/durable-sandbox.h"

static struct counts before;

static void begin(void)
{
	struct warren *w;

	world_enter(SECONDS);
	w = engine();
	/* Create the directories and the layers, and those for disks. */
	sandbox_destroy(make_durable(w));
	sandbox_destroy(sandbox_make(
		w, &(struct warren_spec){ .memory = 64 * MIB, .disk = 96 * MIB }));
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

static void prepare(struct warren *w, char id[ID_LEN + 1])
{
	struct warren_error err = WARREN_ERROR_INIT;

	GOOD(warren_prepare(w, id, &err));
	OK(id_valid(id));
}

/* ---------------------------------------------------- comparison with other sandboxes */

/*
 * Print what a process sees of its environment, without numbers that differ between any
 * two sandboxes.
 */
static const char *const look =
	"( hostname; pwd; id; env | sort; umask; ls -l /proc/self/fd | cut -c1-10,40-;"
	" cut -d' ' -f4- /proc/self/mountinfo | sed 's/^\\(.m.[bdf] .*\\) ro.*/\\1/' | sort;"
	" grep -E '^(Cap|Seccomp|NoNew|SigB|SigI|Groups|Uid)' /proc/self/status;"
	" ls -ln /dev /dev/shm | cut -c1-24; cut -d: -f1 /proc/net/dev; cat /proc/net/if_inet6 /proc/net/fib_trie;"
	" cat /proc/self/limits; cat /proc/1/comm; cat /proc/kcore;"
	" echo > /proc/sys/kernel/hostname; ls -l --time-style=+ /proc/1/fd; df -P / /dev/shm | awk '{print $2}';"
	" cut -d: -f2 /proc/self/cgroup;"
	" for n in net ipc uts cgroup mnt pid user; do readlink /proc/self/ns/$n; done"
	") 2>&1 | sed -E 's/(pipe|net|ipc|uts|cgroup|mnt|pid|user):.[0-9]+/\\1/;"
	" s/(uid|gid)=[0-9]{4,}/\\1/g; s#/proc/[0-9]+/#/proc/N/#; s/^(sh: )[0-9]+/\\1/;"
	" s#/dev/loop[0-9]+#/dev/loop#'";

/* Check the root of init: by a file that it opens for a client, and from outside. */
static void check_init(struct warren_sandbox *sb)
{
	static const char *const links[] = { "root", "cwd" };
	struct warren_error err = WARREN_ERROR_INIT;
	int fd = -1;

	for (size_t i = 0; i < ARRAY_SIZE(links); i++) {
		char path[64];
		struct stat own, root;

		(void)snprintf(path, sizeof(path), "/proc/%d/%s/", init_pid(sb),
			       links[i]);
		EQ(stat(path, &own), 0);
		(void)snprintf(path, sizeof(path), "/proc/%d/root/", init_pid(sb));
		EQ(stat(path, &root), 0);
		OK(own.st_dev == root.st_dev && own.st_ino == root.st_ino);
		EQ(stat("/", &root), 0);
		OK(own.st_dev != root.st_dev);
	}
	GOOD(warren_file_open(sb, "/etc/passwd", O_RDONLY, 0, NULL, &fd, &err));
	(void)close(fd);
}

static char *view(struct warren *w, const struct warren_spec *spec)
{
	struct warren_sandbox *sb = sandbox_make(w, spec);
	char *text = strdup(sandbox_run(sb, SH(look)).out);

	OK(text && strlen(text) > 1000);
	check_init(sb);
	sandbox_destroy(sb);
	return text;
}

TEST(a_sandbox_from_a_prepared_part_is_like_any_other)
{
	AUTO_FREE char *dir = sandbox_path("volume");
	const struct warren_mount mounts[] = {
		{ .source = dir, .target = "/work/here", .read_only = true },
		{ .target = "/scratch", .size = 3 * MIB },
	};
	/* It has fewer capabilities, and one more filter. */
	const struct warren_mount writable = { .source = dir, .target = "/work" };
	const struct warren_spec specs[] = {
		{ .durable = true, .hostname = "burrow" },
		{ .durable = true,
		  .hostname = "burrow",
		  .env = ARGV("A=1", "B=two\nlines"),
		  .workdir = "/tmp/here",
		  .user = "1000:1000",
		  .memory = 64 * MIB,
		  .pids = 50,
		  .nofile = 100,
		  .cpu_millis = 500,
		  .disk = 8 * MIB,
		  .mounts = mounts,
		  .n_mounts = 2 },
		{ .durable = true,
		  .hostname = "quiet",
		  .network = WARREN_NETWORK_NONE,
		  .read_only = true },
		{ .durable = true,
		  .hostname = "writable",
		  .mounts = &writable,
		  .n_mounts = 1 },
		{ .durable = true,
		  .hostname = "large",
		  .memory = 64 * MIB,
		  .disk = 96 * MIB },
	};
	struct warren *w;

	begin();
	OK(mkdir(dir, 0755) == 0);
	w = engine();
	for (size_t i = 0; i < ARRAY_SIZE(specs); i++) {
		AUTO_FREE char *cold = view(w, &specs[i]), *warm = NULL;
		struct warren_spec spec = specs[i];
		char id[ID_LEN + 1];

		prepare(w, id);
		spec.id = id;
		warm = view(w, &spec);
		STREQ(warm, cold);
	}
	(void)rmdir(dir);
	finish(w, "the same");
}

TEST(limits_are_enforced_in_a_prepared_sandbox)
{
	struct warren_spec spec = { .durable = true, .memory = 32 * MIB, .pids = 20 };
	char id[ID_LEN + 1];
	struct warren_sandbox *sb;
	struct warren *w;
	struct said s;

	begin();
	w = engine();
	prepare(w, id);
	spec.id = id;
	sb = sandbox_make(w, &spec);
	STREQ(warren_id(sb), id);
	s = sandbox_run(sb, SH("head -c 100000000 /dev/zero | tail -c 90000000 | wc -c"));
	OK(s.res.oom);
	s = sandbox_run(sb, SH("for i in $(seq 40); do sleep 5 & done; wait"));
	OK(strstr(s.err, "fork"));
	STREQ(sandbox_says(sb, "echo still here"), "still here");
	sandbox_destroy(sb);
	finish(w, "limits");
}

TEST(a_prepared_durable_sandbox_outlives_its_engine)
{
	char id[ID_LEN + 1], found[ID_LEN + 1];
	struct warren *w;

	begin();
	w = engine();
	prepare(w, id);
	EQ(count_durable(w, found), 0); /* there is no sandbox yet */
	(void)sandbox_says(sandbox_make(w, &(struct warren_spec){ .durable = true }),
			   "echo kept > /tmp/x");
	w = warren_close(w);
	w = engine();
	EQ(count_durable(w, found), 1);
	STREQ(found, id); /* without an id, any part is used */
	STREQ(sandbox_says(adopt(w, id), "cat /tmp/x"), "kept");
	sandbox_destroy(adopt(w, id));
	finish(w, "outlived");
}

/* ------------------------------------------------------------------- leftovers */

TEST(unused_prepared_sandboxes_are_removed)
{
	char id[ID_LEN + 1];
	struct warren *w;

	begin();
	w = engine();
	for (int i = 0; i < 5; i++)
		prepare(w, id);
	EQ(warren_unprepare(w, 2), 2);
	sandbox_destroy(make_durable(w));
	EQ(warren_unprepare(w, 1), 1);
	finish(w, "left over");
	w = engine();
	EQ(warren_unprepare(w, 9), 0);
	finish(w, "none");
}

static void make_parts(void)
{
	char id[ID_LEN + 1];
	struct warren *w = engine();

	for (int i = 0; i < 3; i++)
		prepare(w, id);
}

TEST(prepared_parts_end_with_the_engine_that_created_them)
{
	char id[ID_LEN + 1];
	struct warren *w;

	begin();
	killed_after(make_parts);
	w = engine();
	EQ(count_durable(w, id), 0);
	finish(w, "killed");
}

static int step_now;
static bool crash_now;

static int try_step(struct warren *w, struct warren_error *err)
{
	struct warren_sandbox *sb = NULL;
	char id[ID_LEN + 1];
	int r;

	((struct native *)w->state)->inject =
		(struct native_inject){ .step = step_now, .crash = crash_now };
	r = warren_prepare(w, id, err);
	if (r == 0)
		r = warren_create(w, &(struct warren_spec){ .durable = true, .id = id },
				  &sb, err);
	((struct native *)w->state)->inject.step = 0;
	if (r == 0)
		sandbox_destroy(sb);
	return r;
}

static void crash_at_step(void)
{
	struct warren_error err = WARREN_ERROR_INIT;

	(void)try_step(engine(), &err);
}

/* Steps of the mounting process that come before the spec is known. If one of them fails,
 * the sandbox is created without the part. */
static bool is_replaced(int step)
{
	return step >= 1213 && step <= 1216;
}

/* The first number and the count of the steps: of creating, of finishing, and of both
 * processes inside. */
static const struct {
	int first, n;
} ranges[] = { { 1001, 8 }, { 1101, 14 }, { 1201, 26 } };

TEST(a_failure_or_kill_at_any_step_leaves_nothing_behind)
{
	struct warren_error err = WARREN_ERROR_INIT;
	char when[32], id[ID_LEN + 1];
	struct warren *w;

	begin();
	EQ(inside_n_part_steps(), ranges[2].n);
	for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
		for (int k = 0; k < ranges[i].n; k++) {
			step_now = ranges[i].first + k;
			(void)snprintf(when, sizeof(when), "step %d", step_now);
			crash_now = false;
			w = engine();
			if (is_replaced(step_now))
				GOOD(try_step(w, &err));
			else if (try_step(w, &err) != -EIO ||
				 !strstr(err.msg, "injected"))
				TAP_FAIL("step %d: %s", step_now, err.msg);
			/* The control. */
			step_now = 0;
			GOOD(try_step(w, &err));
			finish(w, when);
			step_now = ranges[i].first + k;
			crash_now = true;
			killed_after(crash_at_step);
			w = engine();
			EQ(count_durable(w, id), 0);
			finish(w, when);
		}
}

/* A part that died while it waited is replaced. */
TEST(a_prepared_part_that_died_is_replaced)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_spec spec = { .durable = true };
	struct warren_sandbox *sb = NULL;
	char id[ID_LEN + 1];
	struct warren *w;

	begin();
	w = engine();
	prepare(w, id);
	{
		AUTO_FREE char *path = sandbox_path("run/boxes/%s", id);
		struct sockaddr_un name = { .sun_family = AF_UNIX };
		int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		struct ucred cred = { 0 };
		socklen_t len = sizeof(cred);

		(void)strcpy(name.sun_path, path);
		EQ(connect(fd, (struct sockaddr *)&name, sizeof(name)), 0);
		EQ(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len), 0);
		EQ(kill(cred.pid, SIGKILL), 0);
		EQ(waitpid(cred.pid, NULL, 0), cred.pid);
		(void)close(fd);
	}
	spec.id = id;
	GOOD(warren_create(w, &spec, &sb, &err));
	EQ(err.code, 0); /* the dead part is not reported */
	sandbox_destroy(sb);
	finish(w, "dead while waiting");
}

TEST(an_engine_without_a_name_prepares_nothing)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren *w = NULL;
	char id[ID_LEN + 1];

	begin();
	GOOD(open_named(NULL, &w, &err));
	FAILS(EOPNOTSUPP, warren_prepare(w, id, &err));
	finish(w, "unnamed");
}

TEST_MAIN()
