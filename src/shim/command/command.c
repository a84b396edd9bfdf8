/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command.c - use any tool that can run a command as a platform, with argv templates of
 * the configuration
 *
 *	create			creates {id}; not needed if it already exists
 *	exec			runs a command in it, with the tool's streams
 *	destroy			destroys it, even if it does not exist; not required
 *	copy_out, copy_in	copies {path} to stdout, or stdin to the existing {path};
 *				if missing, exec is used
 *
 * The tool runs `/bin/sh -c SCRIPT`, or the same as one string if it passes the command
 * through another shell ({command}: ssh). The script sets the environment and the
 * directory, so the tool needs no options for them. A script that is too long for an
 * argument is sent on stdin, before the command's own stdin, and a shorter script reads
 * it from there.
 *
 * Only the tool knows how strong the isolation is, and which limits exist. If a request
 * sets a field for which the template has no placeholder, it is refused, and the error
 * names the field.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "shim/command/template.h"
#include "shim/core/driver.h"
#include "shim/core/scripts.h"
#include "spec/spec.h"

#define SAID_MAX   65536
#define INLINE_MAX 98304U /* below the kernel's limit for one argument */
#define SCRIPT_MAX (24U << 20)

static const char loader[] = "n='\n' s=\n"
			     "while IFS= read -r l && [ \"$l\" != \"$1\" ]; do\n"
			     "s=$s$l$n\n"
			     "done\n"
			     "eval \"$s\"\n";

/*
 * A script that runs a command which is passed as one string. A tool that reports an exit
 * status may not report a signal (ssh does not), so an outer shell converts the signal
 * into a status, and prints nothing about it.
 */
static const char outer[] = "exec 9>&2 2>/dev/null\n"
			    "/bin/sh -c \"$0\" \"$@\" 2>&9 9>&-\n"
			    "exit $?\n";

static const json_t *command_words_of(const struct shim_sandbox *p, const char *step)
{
	return json_object_get(p->config, step);
}

/* ----------------------------------------------------------------- running a tool */

static void last_line(struct buf *said)
{
	char *line;

	buf_add(said, "", 1);
	if (!said->data)
		return;
	for (size_t n = strlen(said->data);
	     n > 0 && isspace((unsigned char)said->data[n - 1]);)
		said->data[--n] = '\0';
	line = strrchr(said->data, '\n');
	if (line)
		(void)memmove(said->data, line + 1, strlen(line + 1) + 1);
}

/* Streams of a tool that copies; -1: none. At most this many bytes are copied. */
struct streams {
	int in, out;
	uint64_t most;
};

static const struct streams no_streams = { -1, -1, UINT64_MAX };

static void become_tool(const struct template_argv *argv, const struct streams *s,
			int null, int said) __attribute__((noreturn));
static void become_tool(const struct template_argv *argv, const struct streams *s,
			int null, int said)
{
	sigset_t none;

	(void)setsid();
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	(void)dup2(s->in < 0 ? null : s->in, 0);
	(void)dup2(s->out < 0 ? said : s->out, 1);
	(void)dup2(said, 2);
	if (s->out >= 0 && s->most != UINT64_MAX) {
		(void)setrlimit(RLIMIT_FSIZE, &(struct rlimit){ s->most, s->most });
		(void)signal(SIGXFSZ, SIG_IGN); /* because it would dump core */
	}
	(void)close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
	(void)execvp(argv->words[0], argv->words);
	(void)dprintf(2, "%s: %s\n", argv->words[0], strerrordesc_np(errno));
	_exit(127);
}

/* Run the tool until it ends, or until its time is over. If it fails, its messages become
 * the error. */
static int run_tool(const struct shim_sandbox *p, const char *step,
		    const struct template_argv *argv, const struct streams *s,
		    struct warren_error *err)
{
	AUTO_BUF struct buf said = BUF_INIT(SAID_MAX);
	AUTO_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int ends[2], status, code;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_errno(err, errno, "%s: %s", p->name, step);
	pid = fork();
	if (pid == 0)
		become_tool(argv, s, null, ends[1]);
	status = pid < 0 ? -errno : 0;
	(void)close(ends[1]);
	if (pid > 0)
		status = shim_sandbox_await(pid, shim_sandbox_patience(), ends[0], &said,
					    s->in, s->out);
	(void)close(ends[0]);
	if (status == -ETIMEDOUT)
		return error_set(err, ETIMEDOUT,
				 "%s: %s: '%s' %s within %d seconds, and was killed",
				 p->name, step, argv->words[0],
				 s->in < 0 && s->out < 0 ? "did not end"
							 : "transferred no data",
				 shim_sandbox_patience());
	if (status < 0)
		return error_errno(err, -status, "%s: %s", p->name, step);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	last_line(&said);
	/* If a copy fails, the cause may be the file or a disk. */
	code = said.data && (s->in >= 0 || s->out >= 0)
		       ? script_errno(said.data, EREMOTEIO, NULL)
		       : EREMOTEIO;
	return error_set(err, code, "%s: %s: '%s' failed: %.300s", p->name, step,
			 argv->words[0],
			 said.data && said.data[0] ? said.data : "it gave no reason");
}

static int run_step(const struct shim_sandbox *p, const char *step, struct hole *holes,
		    size_t n, const struct streams *s, struct warren_error *err)
{
	CLEANUP(template_done) struct template_argv argv = { 0 };
	const json_t *words = command_words_of(p, step);
	struct template_use use = {
		.name = p->name, .step = step, .holes = holes, .n_holes = n
	};
	int r;

	if (!words)
		return 0;
	r = template_fill(words, &use, &argv, err);
	return r < 0 ? r : run_tool(p, step, &argv, s, err);
}

/* ----------------------------------------------------------------- create and destroy */

static int command_refuse(const struct shim_sandbox *p, const char *what,
			  struct warren_error *err)
{
	return error_set(
		err, EOPNOTSUPP,
		"%s: create: %s cannot be set: the template has no placeholder for it",
		p->name, what);
}

/* Refuse a request for something that the templates cannot provide, and name it. */
static int command_check_spec(const struct shim_sandbox *p, const struct warren_spec *s,
			      struct warren_error *err)
{
	const json_t *create = command_words_of(p, "create");
	const struct {
		const char *name, *hole;
		bool asked;
	} asks[] = {
		{ "image", "image", s->image },
		{ "hostname", "hostname", s->hostname },
		{ "mounts", "", s->n_mounts > 0 },
		{ "read_only", "", s->read_only },
		{ "network none", "", s->network == WARREN_NETWORK_NONE },
		{ "a network policy", "", s->network == WARREN_NETWORK_CAPTURED },
	};

	for (size_t i = 0; i < ARRAY_SIZE(asks); i++)
		if (asks[i].asked && !template_has(create, asks[i].hole))
			return command_refuse(p, asks[i].name, err);
	for (size_t i = 0; i < SPEC_LIMIT_MAX; i++)
		if (spec_insists(s, i) && !template_has(create, spec_limits[i].word))
			return command_refuse(p, spec_limits[i].word, err);
	/* It is unknown how the command handles an image that is missing. */
	if (s->image && s->no_pull)
		return error_set(
			err, EPERM,
			"%s: create: image '%.80s' may have to be pulled: that needs "
			"the scope 'pull', and a registry that the service's "
			"configuration lists (trusted_registries)",
			p->name, s->image);
	if (s->user && !template_has(command_words_of(p, "exec"), "user") &&
	    !template_has(create, "user"))
		return error_set(
			err, EOPNOTSUPP,
			"%s: create: user cannot be set: no template has a {user}",
			p->name);
	return 0;
}

/* Record the user of execs that name none. */
static int note_user(const struct shim_sandbox *p, const char *user,
		     struct warren_error *err)
{
	char path[sizeof(p->dir) + 8];
	AUTO_CLOSE int fd = -1;
	int r;

	if (!user)
		return 0;
	(void)snprintf(path, sizeof(path), "%s/user", p->dir);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : fd_write_all(fd, user, strlen(user));
	return r < 0 ? error_errno(err, -r, "%s: create: record the user", p->name) : 0;
}

static void command_say_enforced(struct shim_sandbox *p, const struct warren_spec *s)
{
	for (size_t i = 0; i < SPEC_LIMIT_MAX; i++) {
		const char *word = spec_limits[i].word;
		bool told = spec_limit_get(s, i) &&
			    template_has(command_words_of(p, "create"), word);

		shim_sandbox_enforce(p, word, told, "%s",
				     told ? "as configured in the backend's tool"
					  : "whatever the backend's tool allows");
	}
	shim_sandbox_enforce(p, "network", false, "whatever the backend's tool allows");
	shim_sandbox_enforce(p, "isolation", false,
			     "as strong as the backend's tool provides");
}

static int command_create(struct shim_sandbox *p, const struct warren_spec *s,
			  struct warren_error *err)
{
	char words[SPEC_LIMIT_MAX][SPEC_WORD_SIZE];
	struct hole holes[5 + SPEC_LIMIT_MAX] = {
		{ .name = "id", .value = p->id },
		{ .name = "image", .value = s->image },
		{ .name = "hostname", .value = s->hostname ? s->hostname : p->id },
		{ .name = "user", .value = s->user },
		{ .name = "cwd", .value = s->workdir },
	};
	int r = command_check_spec(p, s, err);

	for (size_t i = 0; i < SPEC_LIMIT_MAX; i++) {
		spec_limit_word(i, spec_limit_get(s, i), words[i]);
		holes[5 + i] = (struct hole){
			.name = spec_limits[i].word,
			.value = spec_limit_get(s, i) ? words[i] : NULL,
		};
	}
	if (r == 0 && !json_is_array(command_words_of(p, "exec")))
		r = error_set(err, EINVAL, "%s: there is no template for exec", p->name);
	if (r == 0)
		r = note_user(p, s->user, err);
	if (r == 0)
		r = run_step(p, "create", holes, ARRAY_SIZE(holes), &no_streams, err);
	if (r < 0)
		return r;
	command_say_enforced(p, s);
	return 0;
}

static int command_destroy(struct shim_sandbox *p, struct warren_error *err)
{
	struct hole holes[] = { { .name = "id", .value = p->id } };
	char path[sizeof(p->dir) + 8];
	int r = run_step(p, "destroy", holes, ARRAY_SIZE(holes), &no_streams, err);

	if (r < 0)
		return r;
	(void)snprintf(path, sizeof(path), "%s/user", p->dir);
	(void)unlink(path);
	return 0;
}

/* ---------------------------------------------------------------------------- files */

/* Copy files that are too large for the shell inside; the templates may be missing. */
static int command_copy(struct shim_sandbox *p, const char *step, const char *path,
			const struct streams *s, struct warren_error *err)
{
	struct hole holes[] = { { .name = "id", .value = p->id },
				{ .name = "path", .value = path } };

	if (!command_words_of(p, step))
		return error_set(err, EOPNOTSUPP, "%s: there is no template for %s",
				 p->name, step);
	return run_step(p, step, holes, ARRAY_SIZE(holes), s, err);
}

static int command_read_file(struct shim_sandbox *p, const char *path,
			     uint64_t offset UNUSED, uint64_t size, int to,
			     struct warren_error *err)
{
	return command_copy(p, "copy_out", path, &(struct streams){ -1, to, size }, err);
}

static int command_write_file(struct shim_sandbox *p, const char *path, int from,
			      uint64_t size UNUSED, uint32_t mode UNUSED,
			      uint32_t uid UNUSED, uint32_t gid UNUSED,
			      struct warren_error *err)
{
	return command_copy(p, "copy_in", path, &(struct streams){ from, -1, UINT64_MAX },
			    err);
}

/* ----------------------------------------------------------------------------- exec */

static bool command_is_name(const char *var)
{
	size_t n = strspn(var, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
			       "0123456789");

	return n > 0 && var[n] == '=' && !isdigit((unsigned char)var[0]);
}

/*
 * Write environment, directory and command as a script; env(1) sets names that a shell
 * does not accept.
 */
static void write_script(const struct shim_exec *e, struct buf *out)
{
	bool odd = false;

	for (const char *const *v = e->env; *v; v++) {
		if (!command_is_name(*v)) {
			odd = true;
			continue;
		}
		buf_puts(out, "export ");
		buf_add(out, *v, strcspn(*v, "=") + 1);
		script_quote(out, *v + strcspn(*v, "=") + 1);
		buf_puts(out, "\n");
	}
	if (e->cwd) {
		buf_puts(out, "cd ");
		script_quote(out, e->cwd);
		buf_puts(out, " || exit 127\n");
	}
	buf_puts(out, odd ? "exec env" : "exec");
	for (const char *const *v = e->env; odd && *v; v++) {
		if (command_is_name(*v))
			continue;
		buf_puts(out, " ");
		script_quote(out, *v);
	}
	for (const char *const *a = e->argv; *a; a++) {
		buf_puts(out, " ");
		script_quote(out, *a);
	}
	buf_puts(out, "\n");
}

static void command_fail(const struct shim_exec *e, const struct warren_error *err)
	__attribute__((noreturn));
static void command_fail(const struct shim_exec *e, const struct warren_error *err)
{
	struct shim_outcome o = { .verdict = SHIM_NOT_STARTED,
				  .code = err->code,
				  .err = *err };

	shim_sandbox_exit(e, &o);
}

/*
 * Write the script and then the command's stdin to the tool's stdin. Return when either
 * stream ends.
 */
static void command_feed(const struct buf *script, const char *end, int to)
{
	char piece[65536];
	int r;

	/* This process moves bytes between two pipes, and needs no privileges for that.
	 */
	shim_sandbox_drop_rights();
	r = fd_write_all(to, script->data, script->len);
	if (r == 0)
		r = fd_write_all(to, end, strlen(end));
	if (r == 0)
		r = fd_write_all(to, "\n", 1);
	while (r == 0) {
		ssize_t n = read(0, piece, sizeof(piece));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		r = fd_write_all(to, piece, (size_t)n);
	}
	_exit(0);
}

static void feed_first(const struct buf *script, const char *end,
		       struct warren_error *err, const struct shim_exec *e)
{
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		(void)error_errno(err, errno, "pass the command on");
		command_fail(e, err);
	}
	if (pid == 0) {
		(void)close(ends[0]);
		command_feed(script, end, ends[1]);
	}
	(void)dup2(ends[0], 0);
	(void)close(ends[0]);
	(void)close(ends[1]);
}

static char *read_user(const struct shim_sandbox *p, char text[128])
{
	char path[sizeof(p->dir) + 8];
	int fd;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%s/user", p->dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : fd_read_all(fd, text, 127);
	if (fd >= 0)
		(void)close(fd);
	if (n <= 0)
		return NULL;
	text[n] = '\0';
	return text;
}

/* Choose the arguments of the tool that stand for the command. */
static void choose_words(const struct shim_exec *e, const struct buf *script,
			 const char *mark, struct warren_error *err, const char *words[8])
{
	static const char *const short_way[] = { "/bin/sh", "-c", NULL, NULL };

	if (script->len < INLINE_MAX) {
		(void)memcpy(words, short_way, sizeof(short_way));
		words[2] = script->data;
		return;
	}
	if (e->pty) {
		(void)error_set(err, E2BIG,
				"the arguments and the environment are too long for a "
				"command on a terminal");
		command_fail(e, err);
	}
	words[0] = "/bin/sh";
	words[1] = "-c";
	words[2] = loader;
	words[3] = "sh";
	words[4] = mark;
	words[5] = NULL;
}

static void command_exec(struct shim_sandbox *p, const struct shim_exec *e)
	__attribute__((noreturn));
static void command_exec(struct shim_sandbox *p, const struct shim_exec *e)
{
	AUTO_BUF struct buf script = BUF_INIT(SCRIPT_MAX), line = BUF_INIT(SCRIPT_MAX);
	CLEANUP(template_done) struct template_argv argv = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	const char *tty = json_string_value(json_object_get(p->config, "tty"));
	char user[128], end[40];
	const char *words[8];
	struct hole holes[] = {
		{ .name = "id", .value = p->id },
		{ .name = "user", .value = e->user ? e->user : read_user(p, user) },
		{ .name = "cwd", .value = e->cwd },
		{ .name = "tty",
		  .option = true,
		  .value = !e->pty ? NULL
			   : tty   ? tty
				   : "-t" },
		{ .name = "command" },
	};
	struct template_use use;

	(void)fcntl(e->outcome_fd, F_SETFD, FD_CLOEXEC);
	if (e->user && !template_has(command_words_of(p, "exec"), "user")) {
		(void)error_set(
			&err, EOPNOTSUPP,
			"%s: exec: its template has no {user}, so the user of a command cannot be chosen",
			p->name);
		command_fail(e, &err);
	}
	(void)snprintf(end, sizeof(end), "#%s.%d.%ju", p->id, (int)getpid(),
		       (uintmax_t)clock_now());
	write_script(e, &script);
	choose_words(e, &script, end, &err, words);
	buf_puts(&line, "/bin/sh -c ");
	script_quote(&line, outer);
	for (const char **w = words + 2; *w; w++) {
		buf_puts(&line, " ");
		script_quote(&line, *w);
	}
	if (script.failed || line.failed) {
		(void)error_set(&err, E2BIG,
				"the arguments and the environment are too long");
		command_fail(e, &err);
	}
	holes[4].value = line.data;
	use = (struct template_use){ .name = p->name,
				     .step = "exec",
				     .holes = holes,
				     .n_holes = ARRAY_SIZE(holes),
				     .argv = words };
	if (template_fill(command_words_of(p, "exec"), &use, &argv, &err) < 0)
		command_fail(e, &err);
	if (!use.used_argv && !holes[4].used) {
		(void)error_set(&err, EINVAL,
				"%s: exec: its template has neither {argv} nor {command}",
				p->name);
		command_fail(e, &err);
	}
	if (words[3])
		feed_first(&script, end, &err, e);
	(void)execvp(argv.words[0], argv.words);
	(void)error_errno(&err, errno, "%s: exec: run '%s'", p->name, argv.words[0]);
	command_fail(e, &err);
}

/* ---------------------------------------------------------------------------- probe */

static void command_note(struct warren_feature *f, const char *name, bool ok,
			 const char *effect, const char *fix)
{
	*f = (struct warren_feature){ .name = name,
				      .ok = ok,
				      .required = true,
				      .effect = ok ? NULL : effect,
				      .fix = ok ? NULL : fix };
}

static bool in_path(const char *word)
{
	const char *dirs = getenv("PATH");
	char path[4096];

	if (strchr(word, '/'))
		return access(word, X_OK) == 0;
	for (; dirs && *dirs;
	     dirs += strcspn(dirs, ":") + (dirs[strcspn(dirs, ":")] != 0)) {
		(void)snprintf(path, sizeof(path), "%.*s/%s", (int)strcspn(dirs, ":"),
			       dirs, word);
		if (access(path, X_OK) == 0)
			return true;
	}
	return false;
}

static int command_probe(const char *name UNUSED, const json_t *config,
			 struct warren_feature *features, size_t max,
			 struct warren_error *err UNUSED)
{
	static const char *const steps[] = { "create", "exec", "destroy" };
	static const char *const names[] = { "template create", "template exec",
					     "template destroy" };
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(steps) && n < max; i++) {
		const json_t *words = json_object_get(config, steps[i]);
		const char *tool = json_string_value(json_array_get(words, 0));
		struct warren_feature *f = &features[n];
		bool hole = tool && tool[0] == '{';

		if (!words && i != 1)
			continue;
		command_note(f, names[i], tool && (hole || in_path(tool)),
			     "this backend cannot run anything",
			     tool ? "install the tool that its configuration names"
				  : "add its command to the configuration");
		(void)snprintf(f->detail, sizeof(f->detail), "%s",
			       tool ? tool : "it is missing");
		n++;
	}
	return (int)n;
}

const struct shim_driver shim_driver_command = {
	.kind = &backend_kind_command,
	.outlived = true,
	.probe = command_probe,
	.create = command_create,
	.destroy = command_destroy,
	.exec = command_exec,
	.read_file = command_read_file,
	.write_file = command_write_file,
};
