/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-contract-life.c - requirements for every backend: sandboxes, handles, files and
 * errors
 */
#include <pthread.h>
#include <sys/stat.h>

#include "lib/contract.h"

#define MIB (1U << 20)

/* ------------------------------------------------------------- lifetime of sandboxes */

CONTRACT(a_sandbox_has_an_id_and_reports_what_is_enforced)
{
	const struct warren_enforcement *e;
	size_t n = 0;

	BEGIN();
	EQ(strlen(warren_id(sb)), 12);
	e = warren_enforced(sb, &n);
	OK(e && n > 0);
	for (size_t i = 0; i < n; i++) {
		OK(e[i].name && e[i].name[0]);
		OK(e[i].detail[0]);
		for (size_t k = 0; k < i; k++)
			OK(strcmp(e[i].name, e[k].name) != 0);
	}
	END();
}

CONTRACT(a_backend_reports_what_the_machine_supports)
{
	const struct warren_feature *f = NULL;
	size_t n = 0;

	BEGIN();
	for (int i = 0; i < 2; i++) { /* doing it twice is allowed */
		GOOD(warren_probe(w, &f, &n, &err));
		OK(f && n > 0);
		for (size_t k = 0; k < n; k++)
			OK(f[k].name && (f[k].ok || f[k].effect));
	}
	END();
}

CONTRACT(files_stay_between_execs)
{
	char *path;

	BEGIN();
	path = place(sb, "file");
	EQ(warren_file_write(sb, path, "kept", 4, 0644, &err), 0);
	STREQ(sandbox_run(sb, ARGV("cat", path)).out, "kept");
	EQ(sandbox_run(sb, ARGV("rm", path)).res.exit_code, 0);
	EQ(sandbox_run(sb, ARGV("test", "-e", path)).res.exit_code, 1);
	END();
}

/* All processes of the sandbox are gone when the write end of the pipe is closed. */
CONTRACT(destroy_ends_running_execs)
{
	struct warren_exec_spec spec = {
		.argv = SH("trap '' TERM HUP; sleep 300 & echo up; wait"),
		.out = WARREN_STDIO_PIPE
	};
	struct pollfd p = { .events = POLLIN };
	struct warren_exec *ex;
	char c;

	BEGIN();
	ex = sandbox_start(sb, &spec);
	p.fd = warren_exec_take_fd(ex, 1);
	sandbox_expect(p.fd, "up\n");
	EQ(poll(&p, 1, 100), 0); /* it runs */
	END();
	ex = warren_exec_free(ex);
	EQ(poll(&p, 1, 10000), 1);
	EQ(read(p.fd, &c, 1), 0);
}

CONTRACT(handles_of_execs_outlive_the_sandbox)
{
	struct warren_result res;
	struct warren_exec *done, *running;
	struct warren_output o;
	char buf[16];

	BEGIN();
	done = sandbox_start(sb, &(struct warren_exec_spec){ .argv = SH("exit 7"),
							     .out = WARREN_STDIO_PIPE });
	EQ(sandbox_wait(done).exit_code, 7);
	running = sandbox_start(sb,
				&(struct warren_exec_spec){ .argv = ARGV("sleep", "300"),
							    .in = WARREN_STDIO_PIPE });
	sandbox_destroy(sb);
	EQ(warren_exec_wait(done, 0, &res, &err), 1);
	EQ(res.exit_code, 7);
	/*
	 * The exec was killed, or its result is unknown; in both cases, the wait returns
	 * at once.
	 */
	(void)alarm(20);
	OK(warren_exec_wait(running, -1, &res, &err) != 0);
	FAILS(ESRCH, warren_exec_signal(running, SIGKILL, &err));
	OK(warren_exec_resize(running, 10, 10, &err) < 0);
	OK(warren_exec_output(running, 0, buf, sizeof(buf), &o, &err) < 0);
	OK(warren_exec_fd(running, 0) >= 0);
	(void)warren_exec_wait_fd(running);
	(void)warren_exec_output_fd(running);
	w = warren_close(w);
	OK(warren_exec_fd(done, 1) >= 0);
	done = warren_exec_free(done);
	running = warren_exec_free(running);
}

/* Positive control: the loop writes more beats than an ended exec could have left. */
static void check_beats(struct warren_sandbox *sb, const char *beats)
{
	char script[1024];

	(void)snprintf(script, sizeof(script),
		       "until [ -e '%s' ]; do sleep 0.02; done; n=$(wc -l <'%s'); "
		       "until [ $(wc -l <'%s') -gt $((n+2)) ]; do sleep 0.02; done; "
		       "echo beats",
		       beats, beats, beats);
	STREQ(sandbox_says(sb, script), "beats");
}

/*
 * If the sandbox had a separate filesystem, the file is gone; otherwise, the file no
 * longer changes.
 */
static void check_still(const char *beats)
{
	struct stat first, later;

	if (stat(beats, &first) < 0)
		return;
	(void)usleep(200000);
	OK(stat(beats, &later) == 0);
	EQ(later.st_size, first.st_size);
}

/*
 * Execs whose handles were freed while they ran, and processes that an exec left,
 * continue until the sandbox ends.
 */
CONTRACT(all_processes_end_with_their_sandbox)
{
	AUTO_FREE char *freed = NULL, *left = NULL;
	struct warren_exec *ex;
	char script[1024];

	BEGIN();
	freed = place(sb, "freed");
	left = place(sb, "left");
	(void)snprintf(script, sizeof(script),
		       ": >'%s'; while :; do echo x >>'%s'; sleep 0.02; done", freed,
		       freed);
	ex = sandbox_start(sb, &(struct warren_exec_spec){ .argv = SH(script) });
	ex = warren_exec_free(ex);
	(void)snprintf(script, sizeof(script),
		       ": >'%s'; (while :; do echo x >>'%s'; sleep 0.02; done) "
		       ">/dev/null 2>&1 &",
		       left, left);
	/* A backend without isolation knows only its execs. */
	if (strcmp(how, "null") != 0) {
		EQ(sandbox_sh(sb, script).res.exit_code, 0);
		check_beats(sb, left);
	}
	check_beats(sb, freed);
	sandbox_destroy(sb);
	check_still(freed);
	check_still(left);
	w = warren_close(w);
}

/* Free them in any order: execs before the sandbox, after it, and after the engine. */
CONTRACT(handles_can_be_freed_in_any_order)
{
	struct warren_exec *ex[6];
	struct warren_sandbox *other;

	BEGIN();
	other = sandbox_make(w, NULL);
	for (int i = 0; i < 6; i++)
		ex[i] = sandbox_start(
			i % 2 ? sb : other,
			&(struct warren_exec_spec){ .argv = ARGV("sleep", "300") });
	ex[2] = warren_exec_free(ex[2]);
	ex[3] = warren_exec_free(ex[3]);
	sandbox_destroy(sb);
	ex[1] = warren_exec_free(ex[1]);
	STREQ(sandbox_says(other, "echo other"), "other");
	ex[0] = warren_exec_free(ex[0]);
	w = warren_close(w); /* this destroys the other sandbox */
	ex[4] = warren_exec_free(ex[4]);
	ex[5] = warren_exec_free(ex[5]);
}

CONTRACT(destroying_null_is_allowed)
{
	BEGIN();
	EQ(warren_destroy(NULL, &err), 0);
	OK(!warren_close(NULL));
	OK(!warren_exec_free(NULL));
	END();
}

CONTRACT(many_sandboxes_can_exist_at_the_same_time)
{
	struct warren_sandbox *more[10];
	int n = some(ARRAY_SIZE(more), 4);
	size_t before;

	BEGIN();
	before = sandbox_count_fds();
	for (int i = 0; i < n; i++)
		more[i] = sandbox_make(w, NULL);
	for (int i = 0; i < n; i++) {
		OK(strcmp(warren_id(more[i]), warren_id(sb)) != 0);
		STREQ(sandbox_says(more[i], "echo x"), "x");
	}
	for (int i = 0; i < n; i++)
		sandbox_destroy(more[(i * 7) % n]);
	EQ(sandbox_count_fds(), before);
	STREQ(sandbox_says(sb, "echo x"), "x");
	END();
}

CONTRACT(two_engines_in_one_process_are_independent)
{
	struct warren *other;
	struct warren_sandbox *in_other;

	BEGIN();
	other = sandbox_engine(how);
	in_other = sandbox_make(other, NULL);
	OK(strcmp(warren_id(sb), warren_id(in_other)) != 0);
	STREQ(sandbox_says(sb, "echo one"), "one");
	STREQ(sandbox_says(in_other, "echo two"), "two");
	END();
	STREQ(sandbox_says(in_other, "echo still"), "still");
	other = warren_close(other);
}

/* One thread uses a handle at a time; different threads use different sandboxes. */
static void *run_many(void *sandbox)
{
	for (int i = 0; i < some(50, 4); i++) {
		struct said s = sandbox_sh(sandbox, "echo out; echo err >&2; exit 3");

		STREQ(s.out, "out\n");
		STREQ(s.err, "err\n");
		EQ(s.res.exit_code, 3);
		free(s.out);
		free(s.err);
	}
	return NULL;
}

CONTRACT(sandboxes_can_be_used_in_several_threads)
{
	struct warren_sandbox *more[4];
	pthread_t thread[4];

	BEGIN();
	for (int i = 0; i < 4; i++) {
		more[i] = sandbox_make(w, NULL);
		EQ(pthread_create(&thread[i], NULL, run_many, more[i]), 0);
	}
	(void)run_many(sb);
	for (int i = 0; i < 4; i++) {
		EQ(pthread_join(thread[i], NULL), 0);
		sandbox_destroy(more[i]);
	}
	END();
}

/* Backends of each kind can be used in one process; they are independent. */
TEST(two_backends_in_one_process_are_independent)
{
	struct warren *a = sandbox_engine("null"), *b = sandbox_engine("native");
	struct warren_sandbox *in_a = sandbox_make(a, NULL),
			      *in_b = sandbox_make(b, NULL);

	STREQ(sandbox_says(in_a, "echo a"), "a");
	STREQ(sandbox_says(in_b, "echo b"), "b");
	b = warren_close(b);
	STREQ(sandbox_says(in_a, "echo a"), "a");
	a = warren_close(a);
}

CONTRACT(an_engine_leaves_no_open_descriptor)
{
	struct warren_error err = WARREN_ERROR_INIT;
	size_t before = sandbox_count_fds();

	for (int i = 0; i < some(5, 2); i++) {
		struct warren *w = sandbox_engine(how);
		struct warren_sandbox *sb = sandbox_make(w, NULL), *none = NULL;

		STREQ(sandbox_says(sb, "echo x"), "x");
		OK(warren_create(w, &(struct warren_spec){ .image = "no-such-image" },
				 &none, &err) < 0);
		OK(!none);
		if (i % 2)
			sandbox_destroy(sb);
		w = warren_close(w);
	}
	EQ(sandbox_count_fds(), before);
}

/* -------------------------------------------------------------- invalid requests */

CONTRACT(invalid_specs_are_refused)
{
	static const struct warren_mount relative = { .target = "relative" };
	static const struct warren_mount root = { .target = "/" };
	static const struct warren_mount up = { .target = "/a/../b" };
	static const struct warren_mount none = { .target = NULL };
	static const struct warren_mount source = { .source = "here", .target = "/x" };
	static const char *const no_value[] = { "X", NULL };
	static const struct warren_spec bad[] = {
		{ .hostname = "" },
		{ .hostname = "a b" },
		{ .hostname = "-x" },
		{ .hostname = "x/../y" },
		{ .hostname = "01234567890123456789012345678901"
			      "23456789012345678901234567890123" },
		{ .user = "" },
		{ .user = "a b" },
		{ .user = ":" },
		{ .user = "0:" },
		{ .user = "/etc" },
		{ .workdir = "" },
		{ .workdir = "relative" },
		{ .workdir = "/a/../b" },
		{ .workdir = "/a/./b" },
		{ .env = no_value },
		{ .network = (enum warren_network)9 },
		{ .mounts = &relative, .n_mounts = 1 },
		{ .mounts = &root, .n_mounts = 1 },
		{ .mounts = &up, .n_mounts = 1 },
		{ .mounts = &none, .n_mounts = 1 },
		{ .mounts = &source, .n_mounts = 1 },
	};

	BEGIN();
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct warren_sandbox *none_made = NULL;
		int r = warren_create(w, &bad[i], &none_made, &err);

		if (r != -EINVAL || err.code != EINVAL || none_made)
			TAP_FAIL("spec %zu: %d \"%s\"", i, r, err.msg);
	}
	END();
}

/* A requested feature is enforced or refused; the error names it. */
TEST(the_null_backend_refuses_limits_it_cannot_enforce)
{
	static const struct warren_mount tmp = { .target = "/x" };
	static const struct warren_spec wants[] = {
		{ .memory = 64 * MIB },
		{ .cpu_millis = 1000 },
		{ .pids = 10 },
		{ .disk = MIB },
		{ .nofile = 100 },
		{ .read_only = true },
		{ .hostname = "burrow" },
		{ .user = "1000" },
		{ .image = "dir:/" },
		{ .mounts = &tmp, .n_mounts = 1 },
		{ .network = WARREN_NETWORK_NONE },
	};
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren *w = sandbox_engine("null");
	struct warren_sandbox *sb = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(wants); i++) {
		int r = warren_create(w, &wants[i], &sb, &err);

		if (r != -EOPNOTSUPP || sb || !strstr(err.msg, "null"))
			TAP_FAIL("want %zu: %d \"%s\"", i, r, err.msg);
	}
	sb = sandbox_make(w, &(struct warren_spec){ .image = "host", .workdir = "/" });
	FAILS(EOPNOTSUPP, warren_exec(sb,
				      &(struct warren_exec_spec){ .argv = ARGV("true"),
								  .user = "1000" },
				      &(struct warren_exec *){ NULL }, &err));
	w = warren_close(w);
}

TEST(the_null_backend_reports_that_it_enforces_nothing)
{
	struct warren *w = sandbox_engine("null");
	const struct warren_enforcement *e;
	size_t n = 0;

	e = warren_enforced(sandbox_make(w, NULL), &n);
	OK(n > 0);
	for (size_t i = 0; i < n; i++)
		EQ(e[i].enforced, false);
	w = warren_close(w);
}

/*
 * Check that an operation works, or that its error says what the backend or the machine
 * lacks.
 */
static void works_or_not(int r, const struct warren_error *err, const char *how)
{
	char refusal[64];

	(void)snprintf(refusal, sizeof(refusal), "not supported by backend '%s'", how);
	if (r < 0 && (r != -EOPNOTSUPP ||
		      (!strstr(err->msg, refusal) && !strstr(err->msg, " need"))))
		TAP_FAIL("%d \"%s\"", r, err->msg);
}

CONTRACT(an_optional_feature_works_or_is_refused_by_name)
{
	struct warren_exec *ex = NULL;
	struct warren_stats stats;
	int fd = -1, r;

	BEGIN();
	works_or_not(warren_pause(sb, &err), &err, how);
	works_or_not(warren_resume(sb, &err), &err, how);
	works_or_not(warren_checkpoint(sb, &err), &err, how);
	works_or_not(warren_resume(sb, &err), &err, how);
	works_or_not(warren_stats(sb, &stats, &err), &err, how);
	r = warren_file_open(sb, "/etc/passwd", O_RDONLY, 0, NULL, &fd, &err);
	works_or_not(r, &err, how);
	EQ(r == 0, fd >= 0);
	r = warren_exec(sb,
			&(struct warren_exec_spec){ .argv = ARGV("true"), .pty = true },
			&ex, &err);
	works_or_not(r, &err, how);
	EQ(r == 0, ex != NULL);
	r = warren_exec(sb,
			&(struct warren_exec_spec){ .argv = ARGV("true"),
						    .out = WARREN_STDIO_JOURNAL },
			&ex, &err);
	works_or_not(r, &err, how);
	r = warren_connect(sb, 1, &fd, &err); /* nothing listens there */
	if (r != -ECONNREFUSED)
		OK(r == -EOPNOTSUPP && strstr(err.msg, how));
	FAILS(EINVAL, warren_connect(sb, 0, &fd, &err));
	END();
}

/* -------------------------------------------------------------------- files */

CONTRACT(files_may_have_any_content)
{
	static char data[3 * MIB + 17];
	AUTO_FREE char *back = NULL;
	char *path;
	size_t n = 0, before;

	BEGIN();
	path = place(sb, "a 'name'\n$(x)");
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i * 2654435761U >> 11);
	before = sandbox_count_fds();
	GOOD(warren_file_write(sb, path, data, sizeof(data), 0640, &err));
	GOOD(warren_file_read(sb, path, sizeof(data), &back, &n, &err));
	EQ(n, sizeof(data));
	EQ(memcmp(back, data, n), 0);
	EQ(back[n], '\0');
	EQ(sandbox_count_fds(), before);
	/*
	 * Not every kernel inside supports what stat(1) needs, and not every find(1) has
	 * -printf.
	 */
	STREQ(sandbox_run(
		      sb,
		      ARGV("sh", "-c",
			   "find \"$0\" -printf '%m\\n' 2>/dev/null || stat -c %a \"$0\"",
			   path))
		      .out,
	      "640\n");
	END();
}

CONTRACT(a_file_is_replaced_completely)
{
	AUTO_FREE char *back = NULL;
	char *path;
	char *none = NULL;
	size_t n = 77;

	BEGIN();
	path = place(sb, "file");
	GOOD(warren_file_write(sb, path, "a long first text", 17, 0600, &err));
	GOOD(warren_file_write(sb, path, "short", 5, 0600, &err));
	GOOD(warren_file_read(sb, path, 100, &back, &n, &err));
	EQ(n, 5);
	STREQ(back, "short");
	GOOD(warren_file_write(sb, path, "", 0, 0600, &err));
	GOOD(warren_file_read(sb, path, 100, &none, &n, &err));
	EQ(n, 0);
	STREQ(none, "");
	free(none);
	END();
}

CONTRACT(a_file_larger_than_the_given_maximum_is_refused)
{
	char *path;
	char *back = NULL;
	size_t n = 77;

	BEGIN();
	path = place(sb, "file");
	GOOD(warren_file_write(sb, path, "0123456789", 10, 0600, &err));
	GOOD(warren_file_read(sb, path, 10, &back, &n, &err));
	free(back);
	back = NULL;
	n = 77;
	FAILS(EFBIG, warren_file_read(sb, path, 9, &back, &n, &err));
	FAILS(EFBIG, warren_file_read(sb, path, 0, &back, &n, &err));
	OK(!back && n == 77);
	/* This also works for endless files. */
	OK(warren_file_read(sb, "/dev/zero", 1000, &back, &n, &err) < 0);
	OK(!back && n == 77);
	END();
}

CONTRACT(missing_files_are_reported)
{
	char *back = NULL, *long_path = calloc(1, 5000);
	size_t n = 77;

	BEGIN();
	FAILS(ENOENT, warren_file_read(sb, "/no/such/file", 100, &back, &n, &err));
	OK(warren_file_write(sb, "/no/such/dir/file", "x", 1, 0600, &err) < 0);
	OK(warren_file_read(sb, "/tmp", 100, &back, &n, &err) < 0);
	OK(warren_file_write(sb, "/tmp", "x", 1, 0600, &err) < 0);
	FAILS(EINVAL, warren_file_read(sb, "etc/passwd", 100, &back, &n, &err));
	FAILS(EINVAL, warren_file_read(sb, "/etc/../etc/passwd", 100, &back, &n, &err));
	FAILS(EINVAL, warren_file_write(sb, "x", "x", 1, 0600, &err));
	FAILS(EINVAL, warren_file_read(sb, "", 100, &back, &n, &err));
	(void)memset(long_path, '/', 4999);
	FAILS(ENAMETOOLONG, warren_file_read(sb, long_path, 100, &back, &n, &err));
	OK(!back && n == 77);
	END();
}

/* Nothing is left in the caller's process: no child, dead or alive. */
CONTRACT(an_exec_that_is_not_waited_for_leaves_no_zombie)
{
	size_t n = 0;
	siginfo_t info = { 0 };

	BEGIN();
	for (int i = 0; i < 20; i++) {
		struct warren_exec *ex = sandbox_start(
			sb, &(struct warren_exec_spec){ .argv = ARGV("true") });

		ex = warren_exec_free(ex);
	}
	END();
	while (n < 100 && waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0 &&
	       info.si_pid > 0) {
		info.si_pid = 0;
		n++;
	}
	EQ(n, 0);
}

TEST_MAIN()
