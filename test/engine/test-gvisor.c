/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-gvisor.c - gVisor sandboxes: their kernel, their limits, and leftovers
 *
 * The contract suites test what every backend must do; this file tests what only gVisor
 * provides. A sandbox is inspected from outside by its cgroup, which contains all its
 * processes.
 */
#include <sys/ioctl.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <termios.h>

#include "base/fd.h"
#include "base/id.h"
#include "lib/sandbox.h"
#include "os/cgroup.h"

#define MIB (1ULL << 20)

#define BEGIN(...)                                          \
	struct warren_error err UNUSED = WARREN_ERROR_INIT; \
	struct warren *w = sandbox_engine("gvisor");        \
	struct warren_sandbox *sb = sandbox_make(w, &(struct warren_spec){ __VA_ARGS__ })
#define END()                        \
	do {                         \
		sandbox_destroy(sb); \
		w = warren_close(w); \
	} while (0)

/* ----------------------------------------------- helpers: a sandbox seen from outside */

#define PROCESSES_MAX 256

struct outside {
	size_t n;
	pid_t pids[PROCESSES_MAX];
};

/* Return the processes of the sandbox @id; there are none if it has no cgroup. */
static struct outside look(const char *id)
{
	struct outside o = { 0 };
	struct cgroup_root root;
	char path[64], line[32];
	FILE *f = NULL;
	int fd;

	cgroup_root_open(&root);
	(void)snprintf(path, sizeof(path), "%s%s/cgroup.procs", id,
		       root.mode == CGROUP_V2 ? "/box/e0" : "");
	fd = openat(root.dir[CGROUP_FREEZER], path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		f = fdopen(fd, "r");
	while (f && o.n < PROCESSES_MAX && fgets(line, sizeof(line), f))
		o.pids[o.n++] = atoi(line);
	if (f)
		(void)fclose(f);
	cgroup_root_close(&root);
	return o;
}

/* Return the process of runsc whose command line begins with this name. */
static pid_t called(const struct outside *o, const char *name)
{
	for (size_t i = 0; i < o->n; i++) {
		char path[64], text[4096] = "";

		(void)snprintf(path, sizeof(path), "/proc/%d/cmdline", o->pids[i]);
		if (fd_read_file_at(AT_FDCWD, path, text, sizeof(text)) > 0 &&
		    strcmp(text, name) == 0)
			return o->pids[i];
	}
	TAP_FAIL("there is no %s among %zu processes", name, o->n);
}

static bool alive(pid_t pid)
{
	return kill(pid, 0) == 0;
}

static bool any_alive(const struct outside *o)
{
	for (size_t i = 0; i < o->n; i++)
		if (alive(o->pids[i]))
			return true;
	return false;
}

/* Check that there is no process, cgroup, mount or file. */
static void check_nothing_left(const struct outside *before, const char *id)
{
	static char mounts[1 << 20];
	char path[160];
	struct cgroup_root root;

	for (int i = 0; i < SANDBOX_TRIES && any_alive(before); i++)
		sandbox_nap();
	OK(before->n > 0);
	OK(!any_alive(before));
	cgroup_root_open(&root);
	for (size_t c = 0; c < CGROUP_CONTROLLER_MAX; c++)
		if (root.dir[c] >= 0)
			EQ(faccessat(root.dir[c], id, F_OK, 0), -1);
	cgroup_root_close(&root);
	OK(fd_read_file_at(AT_FDCWD, "/proc/self/mountinfo", mounts, sizeof(mounts)) > 0);
	OK(!strstr(mounts, id));
	(void)snprintf(path, sizeof(path), "%s/run/boxes/%s", sandbox_dir, id);
	EQ(access(path, F_OK), -1);
}

/* ------------------------------------------------------------------ kernel and files */

/* The control makes the same checks on the native backend, which uses the machine's
 * kernel. */
TEST(a_gvisor_sandbox_does_not_use_the_hosts_kernel)
{
	static const char question[] = "uname -r; dmesg 2>&1 | head -1";
	struct warren *native;
	struct warren_sandbox *other;
	struct utsname u;
	const char *said;

	BEGIN(0);
	EQ(uname(&u), 0);
	said = sandbox_says(sb, question);
	OK(strncmp(said, u.release, strlen(u.release)) != 0);
	OK(strstr(said, "Starting gVisor"));
	native = sandbox_engine("native");
	other = sandbox_make(native, &(struct warren_spec){ 0 });
	said = sandbox_says(other, question);
	EQ(strncmp(said, u.release, strlen(u.release)), 0);
	OK(!strstr(said, "gVisor"));
	sandbox_destroy(other);
	native = warren_close(native);
	OK(sandbox_enforces(sb, "kernel"));
	END();
}

TEST(root_inside_is_unprivileged_outside)
{
	char path[64], text[4096];
	struct outside o;

	BEGIN(0);
	STREQ(sandbox_says(sb, "id -u"), "0");
	o = look(warren_id(sb));
	(void)snprintf(path, sizeof(path), "/proc/%d/status",
		       called(&o, "runsc-sandbox"));
	OK(fd_read_file_at(AT_FDCWD, path, text, sizeof(text)) > 0);
	OK(strstr(text, "\nUid:\t65534\t65534\t65534\t65534\n"));
	OK(strstr(text, "\nNoNewPrivs:\t1\n"));
	OK(strstr(text, "\nSeccomp:\t2\n"));
	/* Root inside has its capabilities, other users have none. */
	STREQ(sandbox_says(sb, "grep -E 'CapEff|CapBnd' /proc/self/status"),
	      "CapEff:\t00000000800405fb\nCapBnd:\t00000000800405fb");
	STREQ(sandbox_run_spec(
		      sb, (struct warren_exec_spec){ .argv = ARGV("grep", "CapEff",
								  "/proc/self/status"),
						     .user = "1000:1000" })
		      .out,
	      "CapEff:\t0000000000000000\n");
	END();
}

/* Only files that all users may read are readable in the machine's trees. */
TEST(root_inside_cannot_read_private_files_of_the_hosts_root)
{
	char path[] = "/opt/warren-test-XXXXXX";
	struct said s;
	int fd;

	BEGIN(0);
	fd = mkstemp(path);
	SKIP_UNLESS(fd >= 0, "/opt cannot be written");
	EQ(write(fd, "secret\n", 7), 7);
	s = sandbox_run(sb, ARGV("cat", path));
	EQ(fchmod(fd, 0644), 0);
	EQ(s.res.exit_code, 1);
	OK(strstr(s.err, "Permission denied"));
	s = sandbox_run(sb, ARGV("cat", path));
	(void)unlink(path);
	(void)close(fd);
	STREQ(s.out, "secret\n");
	END();
}

/* ------------------------------------------------------------------------ limits */

TEST(the_disk_has_the_requested_size)
{
	struct said s;

	BEGIN(.disk = 8 * MIB);
	/* /tmp is part of it, not a separate disk. */
	EQ(sandbox_sh(sb, "head -c 3000000 /dev/zero >/root/a && "
			  "head -c 3000000 /dev/zero >/tmp/b")
		   .res.exit_code,
	   0);
	s = sandbox_sh(sb, "head -c 6000000 /dev/zero >/root/c");
	OK(s.res.exit_code != 0);
	OK(strstr(s.err, "No space left"));
	EQ(sandbox_sh(sb,
		      "rm /root/a /root/c /tmp/b && head -c 6000000 /dev/zero >/root/c")
		   .res.exit_code,
	   0);
	END();
}

TEST(processes_and_open_files_are_limited)
{
	static const char fork_many[] =
		"i=0; while [ $i -lt %d ]; do sleep 4 & i=$((i + 1)); done; wait";
	char script[128];

	BEGIN(.pids = 32, .nofile = 64);
	(void)snprintf(script, sizeof(script), fork_many, 20);
	EQ(sandbox_sh(sb, script).res.exit_code, 0);
	(void)snprintf(script, sizeof(script), fork_many, 40);
	OK(strstr(sandbox_sh(sb, script).err, "fork"));
	STREQ(sandbox_says(sb, "ulimit -n"), "64");
	STREQ(sandbox_says(sb, "echo still there"), "still there");
	END();
}

/* Only this sandbox ends when its memory runs out. */
TEST(memory_is_limited)
{
	struct warren_exec *ex = NULL;
	char id[ID_LEN + 1];
	struct outside o;
	struct said s;

	BEGIN(.memory = 128 * MIB, .disk = 64 * MIB);
	EQ(sandbox_sh(sb, "head -c 20000000 /dev/zero >/dev/shm/x").res.exit_code, 0);
	(void)strcpy(id, warren_id(sb));
	o = look(id);
	s = sandbox_sh(sb, "x=$(head -c 400000000 /dev/zero | tr '\\0' x); echo $?");
	EQ(s.res.signal, SIGKILL);
	for (int i = 0; i < SANDBOX_TRIES && alive(o.pids[0]); i++)
		sandbox_nap();
	OK(warren_exec(sb, &(struct warren_exec_spec){ .argv = ARGV("true") }, &ex,
		       &err) < 0);
	sandbox_destroy(sb);
	w = warren_close(w);
	check_nothing_left(&o, id);
}

TEST(unenforceable_limits_are_refused_by_name)
{
	const struct {
		struct warren_spec spec;
		const char *name;
		int code;
	} wrong[] = {
		{ { .memory = 128 * MIB, .disk = 256 * MIB }, "disk", EOPNOTSUPP },
		{ { .memory = 8 * MIB }, "memory", EINVAL },
	};
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren *w = sandbox_engine("gvisor");
	struct warren_sandbox *sb = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		EQ(warren_create(w, &wrong[i].spec, &sb, &err), -wrong[i].code);
		OK(strstr(err.msg, "gvisor"));
		OK(strstr(err.msg, wrong[i].name));
	}
	w = warren_close(w);
}

TEST(a_missing_runsc_is_reported)
{
	AUTO_FREE char *state = sandbox_path("state"), *run = sandbox_path("run");
	struct warren_options options = {
		.backend = "gvisor",
		.backend_config = "{\"runsc\": \"/nowhere/runsc\"}",
		.state_dir = state,
		.run_dir = run,
	};
	struct warren_error err = WARREN_ERROR_INIT;
	const struct warren_feature *f = NULL;
	struct warren_sandbox *sb = NULL;
	struct warren *w = NULL;
	size_t n = 0;

	SKIP_UNLESS(geteuid() == 0, "needs root");
	GOOD(warren_open(&options, &w, &err));
	EQ(warren_create(w, &(struct warren_spec){ 0 }, &sb, &err), -ENODEV);
	OK(strstr(err.msg, "gvisor") && strstr(err.msg, "/nowhere/runsc"));
	GOOD(warren_probe(w, &f, &n, &err));
	OK(n > 0);
	STREQ(f[0].name, "runsc");
	EQ(f[0].ok, false);
	EQ(f[0].required, true);
	STREQ(f[0].fix, "apt-get install runsc");
	w = warren_close(w);
}

/* ---------------------------------------------------------------- mounts and network */

TEST(a_volume_is_used_with_the_ids_of_its_owner)
{
	AUTO_FREE char *dir = sandbox_path("volume"), *file = sandbox_path("volume/mine"),
		       *foreign = sandbox_path("volume/foreign"),
		       *made = sandbox_path("volume/made");
	struct warren_mount mounts[] = {
		{ .source = dir, .target = "/mnt/v" },
		{ .source = file, .target = "/mnt/one", .read_only = true },
		{ .target = "/mnt/tmp", .size = MIB }
	};
	struct stat st;
	struct said s;

	OK(sandbox_dir[0]);
	EQ(mkdir(dir, 0755), 0);
	sandbox_put(file, "hello\n", 0644);
	sandbox_put(foreign, "secret\n", 0600);
	EQ(chown(dir, 4321, 4321) + chown(file, 4321, 4321), 0);
	BEGIN(.mounts = mounts, .n_mounts = ARRAY_SIZE(mounts));
	STREQ(sandbox_says(sb, "cat /mnt/v/mine /mnt/one"), "hello\nhello");
	s = sandbox_sh(sb, "cat /mnt/v/foreign");
	OK(strstr(s.err, "Permission denied"));
	EQ(sandbox_sh(sb, "echo new >/mnt/v/made; echo x >/mnt/tmp/x").res.exit_code, 0);
	EQ(stat(made, &st), 0);
	EQ(st.st_uid, 4321);
	OK(sandbox_sh(sb, "echo new >/mnt/one").res.exit_code != 0);
	OK(sandbox_sh(sb, "head -c 2000000 /dev/zero >/mnt/tmp/y").res.exit_code != 0);
	END();
}

TEST(a_read_only_root_cannot_be_written)
{
	BEGIN(.read_only = true);
	OK(strstr(sandbox_sh(sb, "echo >/new").err, "Read-only"));
	OK(strstr(sandbox_sh(sb, "echo >/tmp/new").err, "Read-only"));
	EQ(sandbox_sh(sb, "echo >/dev/shm/new").res.exit_code, 0);
	END();
}

TEST(a_sandbox_has_loopback_or_no_network)
{
	static const char interfaces[] = "grep -c : /proc/net/dev";
	struct warren_sandbox *none;

	BEGIN(0);
	STREQ(sandbox_says(sb, interfaces), "1");
	none = sandbox_make(w, &(struct warren_spec){ .network = WARREN_NETWORK_NONE });
	STREQ(sandbox_sh(none, interfaces).out, "0\n");
	sandbox_destroy(none);
	END();
}

TEST(an_image_with_a_single_program_can_be_used)
{
	AUTO_FREE char *dir = sandbox_path("image"), *bin = sandbox_path("image/bin"),
		       *image = NULL, *copy = NULL;
	struct warren_exec *ex = NULL;

	SKIP_UNLESS(access("/bin/busybox", X_OK) == 0, "needs busybox");
	EQ(mkdir(dir, 0755) + mkdir(bin, 0755), 0);
	OK(asprintf(&copy, "cp /bin/busybox %s/true", bin) > 0);
	EQ(system(copy), 0); // NOLINT(cert-env33-c): a test's own command
	OK(asprintf(&image, "dir:%s", dir) > 0);
	BEGIN(.image = image);
	EQ(sandbox_run(sb, ARGV("/bin/true")).res.exit_code, 0);
	FAILS(ENOENT,
	      warren_exec(sb, &(struct warren_exec_spec){ .argv = ARGV("/bin/sh") }, &ex,
			  &err));
	END();
}

/* ------------------------------------------------------------------ running sandboxes */

TEST(a_paused_sandbox_uses_no_processor_time)
{
	struct warren_stats before, after;
	struct warren_exec *ex;

	BEGIN(0);
	ex = sandbox_start(
		sb, &(struct warren_exec_spec){ .argv = SH("while :; do :; done") });
	GOOD(warren_pause(sb, &err));
	GOOD(warren_stats(sb, &before, &err));
	(void)usleep(300000);
	GOOD(warren_stats(sb, &after, &err));
	EQ(after.cpu_usec, before.cpu_usec);
	GOOD(warren_resume(sb, &err));
	(void)usleep(300000);
	GOOD(warren_stats(sb, &after, &err));
	OK(after.cpu_usec > before.cpu_usec);
	OK(after.memory > 0);
	OK(after.pids >= 2);
	GOOD(warren_exec_signal(ex, SIGKILL, &err));
	EQ(sandbox_wait(ex).signal, SIGKILL);
	ex = warren_exec_free(ex);
	END();
}

TEST(a_terminal_has_a_size_and_passes_keys_on)
{
	struct warren_exec_spec spec = {
		.argv = SH(
			"stty size; trap 'stty size' WINCH; trap 'exit 9' INT; echo on; "
			"while :; do sleep 0.05; done"),
		.pty = true,
		.rows = 30,
		.cols = 100,
	};
	struct warren_exec *ex;
	int fd;

	BEGIN(0);
	ex = sandbox_start(sb, &spec);
	fd = warren_exec_fd(ex, 0);
	sandbox_expect(fd, "30 100\r\non\r\n");
	GOOD(warren_exec_resize(ex, 41, 121, &err));
	sandbox_expect(fd, "41 121\r\n");
	EQ(write(fd, "\x03", 1), 1);
	EQ(sandbox_wait(ex).exit_code, 9);
	ex = warren_exec_free(ex);
	END();
}

/* ------------------------------------------------------------------- end of a sandbox */

TEST(a_destroyed_gvisor_sandbox_leaves_nothing_behind)
{
	char id[ID_LEN + 1];
	struct outside o;

	BEGIN(0);
	(void)sandbox_start(sb,
			    &(struct warren_exec_spec){ .argv = ARGV("sleep", "1000") });
	(void)strcpy(id, warren_id(sb));
	o = look(id);
	OK(alive(called(&o, "runsc-sandbox")) && alive(called(&o, "runsc-gofer")));
	END();
	check_nothing_left(&o, id);
}

/* Kill either of its processes. */
static void check_killed(const char *name)
{
	struct warren_result res;
	char id[ID_LEN + 1];
	struct warren_exec *ex;
	struct outside o;

	BEGIN(0);
	ex = sandbox_start(sb,
			   &(struct warren_exec_spec){ .argv = ARGV("sleep", "1000") });
	(void)strcpy(id, warren_id(sb));
	o = look(id);
	EQ(kill(called(&o, name), SIGKILL), 0);
	/* It is unknown how the command ended. */
	EQ(warren_exec_wait(ex, -1, &res, &err), -EPIPE);
	err = (struct warren_error)WARREN_ERROR_INIT;
	ex = warren_exec_free(ex);
	END();
	check_nothing_left(&o, id);
}

TEST(a_killed_sentry_ends_the_sandbox)
{
	check_killed("runsc-sandbox");
}

TEST(a_killed_gofer_ends_the_sandbox)
{
	check_killed("runsc-gofer");
}

TEST(a_paused_gvisor_sandbox_can_be_destroyed)
{
	char id[ID_LEN + 1];
	struct outside o;

	BEGIN(0);
	(void)strcpy(id, warren_id(sb));
	o = look(id);
	GOOD(warren_pause(sb, &err));
	END();
	check_nothing_left(&o, id);
}

/* A shim leaves this state if it is killed while it ends its sandbox. */
TEST(a_sandbox_frozen_by_another_process_can_be_destroyed)
{
	char id[ID_LEN + 1];
	struct cgroup_root root;
	struct outside o;

	BEGIN(0);
	(void)strcpy(id, warren_id(sb));
	o = look(id);
	cgroup_root_open(&root);
	GOOD(cgroup_freeze(&root, id, true, &err));
	cgroup_root_close(&root);
	END();
	check_nothing_left(&o, id);
}

TEST_MAIN()
