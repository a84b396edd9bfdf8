/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox.h - for tests that create sandboxes: an engine in separate directories,
 * commands, and their output
 *
 * Each program gets a folder in /tmp, for the state and run directories and for the
 * tests' own files. When the program ends, an engine is opened once more, so that
 * leftovers of failed tests are removed, and then the directory is removed. A test that
 * hangs is ended by an alarm.
 */
#ifndef TEST_BOX_H
#define TEST_BOX_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <time.h>

#include "base/macro.h"
#include "lib/tap.h"
#include "warren.h"

#define SANDBOX_PATIENCE 60  /* a limit that no test reaches */
#define SANDBOX_OTHERS   3   /* factor for tests that use other programs */
#define SANDBOX_TRIES    600 /* calls of sandbox_nap() while waiting */
#define SANDBOX_SAID_MAX (64U << 20)

#define SH(script) ((const char *[]){ "sh", "-c", (script), NULL })
#define ARGV(...)  ((const char *[]){ __VA_ARGS__, NULL })

/* The call must succeed; otherwise its error is printed. */
#define GOOD(call)                                                         \
	do {                                                               \
		if ((call) < 0)                                            \
			TAP_FAIL("%s: %s (%d)", #call, err.msg, err.code); \
	} while (0)
/* The call must fail with that errno and a message. */
#define FAILS(code_, call)                                                        \
	do {                                                                      \
		int r_ = (call);                                                  \
		if (r_ != -(code_) || err.code != (code_) || !err.msg[0])         \
			TAP_FAIL("%s is %d \"%s\" (%d), not -" #code_, #call, r_, \
				 err.msg, err.code);                              \
		err = (struct warren_error)WARREN_ERROR_INIT;                     \
	} while (0)

/*
 * The output of a command and how it ended; NUL-terminated, never freed, because a test
 * is short.
 */
struct said {
	char *out, *err;
	size_t n_out, n_err;
	struct warren_result res;
};

static char sandbox_dir[64]; /* "" if there is no directory */
static pid_t sandbox_owner;
static bool
	sandbox_other; /* the engine that was opened last is that of $WARREN_OTHER_KIND */

static inline int sandbox_remove_one(const char *path, const struct stat *st UNUSED,
				     int type UNUSED, struct FTW *ftw UNUSED)
{
	(void)remove(path);
	return 0;
}

static inline void sandbox_remove_tree(const char *path)
{
	(void)nftw(path, sandbox_remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

__attribute__((format(printf, 1, 2))) static inline char *sandbox_path(const char *fmt,
								       ...)
{
	char *path = NULL, *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	OK(vasprintf(&text, fmt, ap) >= 0);
	va_end(ap);
	OK(asprintf(&path, "%s/%s", sandbox_dir, text) >= 0);
	free(text);
	return path;
}

/* Backends with a configuration: the name in tests, the kind, and the settings. */
static const struct {
	const char *how, *kind, *config;
} sandbox_ways[] = {
	{ "command", "command", "{\"exec\": [\"{argv}\"]}" },
};

static inline int sandbox_open(const char *backend, struct warren **ret,
			       struct warren_error *err)
{
	AUTO_FREE char *state = sandbox_path("state"), *run = sandbox_path("run");
	struct warren_options options = { .backend = backend,
					  .state_dir = state,
					  .run_dir = run };

	for (size_t i = 0; i < ARRAY_SIZE(sandbox_ways); i++) {
		if (strcmp(sandbox_ways[i].how, backend) != 0)
			continue;
		options.backend = sandbox_ways[i].kind;
		options.backend_config = sandbox_ways[i].config;
	}
	sandbox_other = getenv("WARREN_OTHER_KIND") &&
			strcmp(backend, getenv("WARREN_OTHER_NAME")) == 0;
	if (sandbox_other) {
		options.backend = getenv("WARREN_OTHER_KIND");
		options.backend_config = getenv("WARREN_OTHER_CONFIG");
	}
	return warren_open(&options, ret, err);
}

__attribute__((constructor)) static inline void sandbox_setup(void)
{
	/* The library starts the programs of this build. */
	if (getenv("WARREN_BUILD"))
		(void)setenv("WARREN_LIBEXEC", getenv("WARREN_BUILD"), 0);
	(void)strcpy(sandbox_dir, "/tmp/warren-test-XXXXXX");
	if (!mkdtemp(sandbox_dir) || chmod(sandbox_dir, 0755) < 0)
		sandbox_dir[0] = '\0';
	sandbox_owner = getpid();
}

static inline void sandbox_nap(void)
{
	(void)nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
}

/* Does a sandbox of a failed test still have its link? */
static inline bool sandbox_has_leftovers(void)
{
	AUTO_FREE char *ids = sandbox_path("run/ids");
	DIR *d = opendir(ids);
	bool found = false;

	for (struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d))
		found |= e->d_name[0] != '.';
	if (d)
		(void)closedir(d);
	return found;
}

__attribute__((destructor)) static inline void sandbox_cleanup(void)
{
	if (getpid() != sandbox_owner || !sandbox_dir[0])
		return;
	/* Try more than once, because processes may still be ending. */
	for (int i = 0; i < SANDBOX_TRIES && sandbox_has_leftovers(); i++) {
		struct warren_error ignored = WARREN_ERROR_INIT;
		struct warren *w = NULL;

		if (sandbox_open("native", &w, &ignored) == 0)
			w = warren_close(w);
		sandbox_nap();
	}
	sandbox_remove_tree(sandbox_dir);
}

/* ------------------------------------------------------------- helpers */

static inline size_t sandbox_count_fds(void)
{
	size_t n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* Write a file of this test on the host. */
static inline void sandbox_put(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	OK(fd >= 0);
	EQ(write(fd, text, strlen(text)), strlen(text));
	EQ(fchmod(fd, mode), 0);
	(void)close(fd);
}

/* ------------------------------------------------------ engines and sandboxes */

/* Skip the test if this machine lacks something that the backend needs. */
static inline void sandbox_skip_unless_ready(struct warren *w)
{
	struct warren_error err = WARREN_ERROR_INIT;
	const struct warren_feature *f = NULL;
	size_t n = 0;

	GOOD(warren_probe(w, &f, &n, &err));
	for (size_t i = 0; i < n; i++)
		SKIP_UNLESS(f[i].ok || !f[i].required, "%s: %s", f[i].name, f[i].detail);
}

/* Open an engine with @backend; skip the test if it cannot work. */
static inline struct warren *sandbox_engine(const char *backend)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren *w = NULL;

	OK(sandbox_dir[0]);
	(void)alarm(SANDBOX_PATIENCE *
		    (getenv("WARREN_OTHER_KIND") ? SANDBOX_OTHERS : 1));
	(void)signal(SIGPIPE, SIG_IGN);
	GOOD(sandbox_open(backend, &w, &err));
	if (strcmp(backend, "gvisor") == 0)
		sandbox_skip_unless_ready(w);
	return w;
}

static inline struct warren_sandbox *sandbox_make(struct warren *w,
						  const struct warren_spec *spec)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_sandbox *sb = NULL;
	struct warren_spec copy = spec ? *spec : (struct warren_spec){ 0 };

	/* Not every backend has a default image. */
	if (!copy.image && sandbox_other)
		copy.image = getenv("WARREN_OTHER_IMAGE");
	GOOD(warren_create(w, &copy, &sb, &err));
	OK(sb);
	return sb;
}

/*
 * Does the backend report this feature? It supports everything that it does not report.
 */
static inline bool sandbox_enforces(struct warren_sandbox *sb, const char *name)
{
	size_t n = 0;
	const struct warren_enforcement *e = warren_enforced(sb, &n);

	for (size_t i = 0; i < n; i++)
		if (strcmp(e[i].name, name) == 0)
			return e[i].enforced;
	return true;
}

static inline void sandbox_destroy(struct warren_sandbox *sb)
{
	struct warren_error err = WARREN_ERROR_INIT;

	GOOD(warren_destroy(sb, &err));
}

static inline struct warren_exec *sandbox_start(struct warren_sandbox *sb,
						const struct warren_exec_spec *spec)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_exec *ex = NULL;

	GOOD(warren_exec(sb, spec, &ex, &err));
	OK(ex);
	return ex;
}

static inline struct warren_result sandbox_wait(struct warren_exec *ex)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_result res;

	(void)memset(&res, 0x5a, sizeof(res));
	GOOD(warren_exec_wait(ex, -1, &res, &err));
	return res;
}

/* ------------------------------------------------------------------- output */

/* Append the data that can be read now to @data; false at the end. */
static inline bool sandbox_read(int fd, char **data, size_t *n)
{
	char block[65536];
	ssize_t r = read(fd, block, sizeof(block));

	if (r < 0 && (errno == EINTR || errno == EAGAIN))
		return true;
	if (r <= 0)
		return false;
	OK(*n + (size_t)r < SANDBOX_SAID_MAX);
	*data = realloc(*data, *n + (size_t)r + 1);
	OK(*data);
	(void)memcpy(*data + *n, block, (size_t)r);
	*n += (size_t)r;
	(*data)[*n] = '\0';
	return true;
}

/* Write a part of @in. Return false if everything was written, or if the other end is
 * closed. */
static inline bool sandbox_feed(int fd, const char *in, size_t size, size_t *at)
{
	ssize_t r = *at < size ? write(fd, in + *at, size - *at) : 0;

	if (r < 0 && (errno == EINTR || errno == EAGAIN))
		return true;
	if (r <= 0)
		return false;
	*at += (size_t)r;
	return *at < size;
}

/* Serve the streams of @ex until they end, then wait for it. Frees it. */
static inline struct said sandbox_finish(struct warren_exec *ex, const void *in,
					 size_t n_in)
{
	struct pollfd p[3] = { { warren_exec_take_fd(ex, 0), POLLOUT, 0 },
			       { warren_exec_take_fd(ex, 1), POLLIN, 0 },
			       { warren_exec_take_fd(ex, 2), POLLIN, 0 } };
	struct said s = { .out = calloc(1, 1), .err = calloc(1, 1) };
	size_t at = 0;

	if (p[0].fd >= 0)
		EQ(fcntl(p[0].fd, F_SETFL, O_NONBLOCK), 0);
	while (p[0].fd >= 0 || p[1].fd >= 0 || p[2].fd >= 0) {
		bool more[3] = { true, true, true };

		if (poll(p, 3, -1) < 0 && errno != EINTR)
			TAP_FAIL("poll: %s", strerror(errno));
		if (p[0].fd >= 0 && p[0].revents)
			more[0] = sandbox_feed(p[0].fd, in, n_in, &at);
		if (p[1].fd >= 0 && p[1].revents)
			more[1] = sandbox_read(p[1].fd, &s.out, &s.n_out);
		if (p[2].fd >= 0 && p[2].revents)
			more[2] = sandbox_read(p[2].fd, &s.err, &s.n_err);
		for (int i = 0; i < 3; i++) {
			if (more[i])
				continue;
			(void)close(p[i].fd);
			p[i].fd = -1;
		}
	}
	s.res = sandbox_wait(ex);
	ex = warren_exec_free(ex);
	return s;
}

static inline struct said sandbox_run_spec(struct warren_sandbox *sb,
					   struct warren_exec_spec spec)
{
	spec.out = spec.err = WARREN_STDIO_PIPE;
	return sandbox_finish(sandbox_start(sb, &spec), NULL, 0);
}

static inline struct said sandbox_run(struct warren_sandbox *sb, const char *const *argv)
{
	return sandbox_run_spec(sb, (struct warren_exec_spec){ .argv = argv });
}

static inline struct said sandbox_sh(struct warren_sandbox *sb, const char *script)
{
	return sandbox_run(sb, SH(script));
}

/* Return the whole output of @script, which must succeed, without the last newline. */
static inline char *sandbox_says(struct warren_sandbox *sb, const char *script)
{
	struct said s = sandbox_sh(sb, script);

	if (s.res.exit_code != 0 || s.n_err > 0)
		TAP_FAIL("'%s': status %d, signal %d: %s", script, s.res.exit_code,
			 s.res.signal, s.err);
	if (s.n_out > 0 && s.out[s.n_out - 1] == '\n')
		s.out[s.n_out - 1] = '\0';
	return s.out;
}

/* Wait until @text was read from @fd. */
static inline void sandbox_expect(int fd, const char *text)
{
	size_t want = strlen(text), got = 0;
	char buf[256];

	OK(want < sizeof(buf));
	while (got < want) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		ssize_t r;

		OK(poll(&p, 1, SANDBOX_PATIENCE * 1000) > 0);
		r = read(fd, buf + got, want - got);
		if (r < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (r <= 0)
			TAP_FAIL("the end came before \"%s\"", text);
		got += (size_t)r;
	}
	buf[got] = '\0';
	STREQ(buf, text);
}

#endif /* TEST_BOX_H */
