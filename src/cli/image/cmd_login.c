/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_login.c - warren login and logout: manage the logins that pulls use */
#include <errno.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"
#include "cli/common_options.h"
#include "cli/image/cancel.h"
#include "cli/image/image.h"
#include "cli/image/settings.h"
#include "cli/image/source.h"
#include "image/ref.h"
#include "image/registry.h"
#include "image/registry_auth.h"

#define DEFAULT_REGISTRY "docker.io" /* the same as for references without a registry */
#define USER_MAX         256
#define SECRET_MAX       (16U << 10)

struct login_options {
	const char *user;
	bool from_stdin;
	bool json;
};

#define FIELD(name) offsetof(struct login_options, name)

/* clang-format off */
static const struct opt login_table[] = {
	{ NULL, "username", 'u', "USER", "me",
	  "user name (default: ask for it)",
	  opt_text, FIELD(user) },
	{ NULL, "password-stdin", 0, NULL, NULL,
	  "read the password or token from standard input",
	  opt_flag, FIELD(from_stdin) },
	{ NULL, OPT_JSON("print the result as one JSON object", FIELD(json)) },
};

static const struct opt logout_table[] = {
	{ NULL, OPT_JSON("print the result as one JSON object", FIELD(json)) },
};
/* clang-format on */

static bool login_cancelled(void *ctx)
{
	(void)ctx;
	return cancel_signal() != 0;
}

static const struct helper_watch login_watch = { login_cancelled, NULL };

static int login_progress(void *ctx, const struct registry_blob *blobs, size_t n)
{
	(void)ctx, (void)blobs, (void)n;
	return cancel_signal() != 0;
}

/* Parse HOST[:PORT], or a URL without a path, into the form of references. */
static int login_registry(const char *text, struct ref *ret, struct warren_error *err)
{
	static const char *const paths[] = { "", "/", "/v1/", "/v2/" };
	struct warren_error ignored = WARREN_ERROR_INIT;
	const char *host = text;
	char name[300];
	size_t n;

	if (!text) {
		(void)strcpy(ret->registry, DEFAULT_REGISTRY);
		return 0;
	}
	if (strncasecmp(host, "https://", 8) == 0)
		host += 8;
	else if (strncasecmp(host, "http://", 7) == 0)
		host += 7;
	n = strcspn(host, "/");
	(void)snprintf(name, sizeof(name), "%.*s/x/x", n < 256 ? (int)n : 0, host);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		if (strcmp(host + n, paths[i]) == 0 &&
		    ref_parse(name, ret, &ignored) == 0 && strcmp(ret->name, "x/x") == 0)
			return 0;
	return error_set(
		err, EINVAL,
		"'%.200s' is not a registry: give its host as in an image reference (example: registry.lan:5000)",
		text);
}

/* ----------------------------------------------------------------- terminal input */

/* Wait for input or a signal, even one that arrives just before the wait. */
static int login_wait(void)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	sigset_t all, before;
	int r = -EINTR;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_BLOCK, &all, &before);
	while (r == -EINTR && !cancel_signal())
		r = ppoll(&p, 1, NULL, &before) < 0 ? -errno : 0;
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	return cancel_signal() ? -ECANCELED : r;
}

/* Read one line, or with @all everything, without the final line break. */
static int login_read(char *text, size_t size, bool all)
{
	size_t n = 0;

	for (;;) {
		int r = login_wait();
		ssize_t got =
			r < 0 ? r : read(STDIN_FILENO, text + n, all ? size - n : 1);

		if (r < 0)
			return r;
		if (got < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (got < 0)
			return -errno;
		n += (size_t)got;
		if (n == size)
			return -EFBIG;
		if (got == 0 || (!all && text[n - 1] == '\n'))
			break;
	}
	if (n > 0 && text[n - 1] == '\n')
		n--;
	if (n > 0 && text[n - 1] == '\r')
		n--;
	text[n] = '\0';
	return strlen(text) == n ? 0 : -EINVAL;
}

/* Ask at the terminal; if @secret is set, the input is not echoed. */
static int login_prompt(const char *prompt, bool secret, char *text, size_t size)
{
	struct termios before, quiet;
	int r;

	if (!secret) {
		(void)fd_write_all(STDERR_FILENO, prompt, strlen(prompt));
		return login_read(text, size, false);
	}
	if (tcgetattr(STDIN_FILENO, &before) < 0)
		return -errno;
	quiet = before;
	quiet.c_lflag &= ~(tcflag_t)ECHO;
	if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet) < 0)
		return -errno;
	/*
	 * Print the prompt after echo was disabled, so that users do not type too early.
	 */
	(void)fd_write_all(STDERR_FILENO, prompt, strlen(prompt));
	r = login_read(text, size, false);
	(void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
	(void)fd_write_all(STDERR_FILENO, "\n", 1);
	return r;
}

static int login_wrong(int r, const char *what, size_t max, struct warren_error *err)
{
	if (r == -ECANCELED)
		return error_set(err, ECANCELED, "cancelled");
	if (r == -EFBIG)
		return error_set(err, EFBIG, "the %s is longer than %zu bytes", what,
				 max - 1);
	if (r == -EINVAL)
		return error_set(err, EINVAL, "the %s contains a NUL byte", what);
	return error_errno(err, -r, "read the %s", what);
}

static int login_input(const struct login_options *o, char user[USER_MAX],
		       char secret[SECRET_MAX], struct warren_error *err)
{
	int r = 0;

	if (o->from_stdin && !o->user)
		return error_set(err, EINVAL,
				 "--password-stdin needs --username (example: %s)",
				 image_login.opts->example);
	if (!o->from_stdin && !isatty(STDIN_FILENO))
		return error_set(
			err, ENOTTY,
			"cannot ask for the password, because stdin is not a terminal: use --password-stdin (example: %s)",
			image_login.opts->example);
	if (!o->user)
		r = login_prompt("Username: ", false, user, USER_MAX);
	else if (strlen(o->user) < USER_MAX)
		(void)strcpy(user, o->user);
	else
		r = -EFBIG;
	if (r < 0)
		return login_wrong(r, "name", USER_MAX, err);
	/* A login is sent as "name:secret", so the name must not contain a colon. */
	if (!*user || strchr(user, ':'))
		return error_set(err, EINVAL, "the name '%.100s' %s", user,
				 *user ? "contains a colon" : "is empty");
	r = o->from_stdin ? login_read(secret, SECRET_MAX, true)
			  : login_prompt("Password: ", true, secret, SECRET_MAX);
	if (r < 0)
		return login_wrong(r, "password", SECRET_MAX, err);
	return *secret ? 0 : error_set(err, EINVAL, "the password is empty");
}

/* -------------------------------------------------------------------- commands */

/*
 * Return 1 if the registry accepts the login, or 0 if the registry cannot be reached or
 * requires no login, after a message about this.
 */
static int login_check(const char *registry, const char *user, const char *secret,
		       struct warren_error *err)
{
	CLEANUP(settings_done) struct settings settings = { 0 };
	struct registry_options options = { .progress = login_progress };
	int r = settings_read(&settings, err);

	if (r < 0)
		return r;
	options.ca_file = settings.ca_file;
	options.insecure = settings.insecure.v;
	r = registry_check_login(registry, &options, user, secret, err);
	if (r == 0)
		return 1;
	if (r == 1)
		message_say(
			image_login.name,
			"%s does not require a login, so the password was not checked",
			registry);
	else if (!registry_unreachable(r))
		return r;
	else
		message_say(image_login.name, "%s; the login is stored unchecked",
			    err->msg);
	return 0;
}

static void login_describe(const char *registry, const char *user, const char *where,
			   int checked, bool as_json, struct buf *out)
{
	struct json j = { .out = out };

	if (!as_json) {
		buf_printf(out, "Login for %s stored in %s\n", registry, where);
		return;
	}
	json_open(&j, NULL, '{');
	json_str(&j, "registry", registry);
	json_str(&j, "username", user);
	json_str(&j, "stored_in", where);
	json_bool(&j, "checked", checked == 1);
	json_close(&j, '}');
	buf_puts(out, "\n");
}

static int image_cmd_login(int argc, char **argv)
{
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	struct warren_error err = WARREN_ERROR_INIT;
	char user[USER_MAX] = "", where[CREDS_WHERE_MAX] = "";
	static char secret[SECRET_MAX];
	struct login_options o = { 0 };
	struct ref ref = { 0 };
	char **operands;
	int status = 0, r;

	if (!command_operands(&image_login, argc, argv, &o, 0, 1, &operands, &status))
		return status;
	cancel_arm();
	r = login_registry(operands[0], &ref, &err);
	if (r == 0)
		r = login_input(&o, user, secret, &err);
	if (r == 0)
		r = login_check(ref.registry, user, secret, &err);
	if (r >= 0) {
		int checked = r;

		r = creds_store(ref.registry, user, secret, &login_watch, where, &err);
		login_describe(ref.registry, user, where, checked, o.json, &out);
	}
	OPENSSL_cleanse(secret, sizeof(secret));
	return image_end(&image_login, r, &err, &out);
}

static int image_cmd_logout(int argc, char **argv)
{
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	struct warren_error err = WARREN_ERROR_INIT;
	struct json j = { .out = &out };
	struct login_options o = { 0 };
	struct ref ref = { 0 };
	char **operands;
	int status = 0, r;

	if (!command_operands(&image_logout, argc, argv, &o, 0, 1, &operands, &status))
		return status;
	cancel_arm();
	r = login_registry(operands[0], &ref, &err);
	if (r == 0)
		r = creds_erase(ref.registry, &login_watch, &err);
	if (o.json) {
		json_open(&j, NULL, '{');
		json_str(&j, "registry", ref.registry);
		json_bool(&j, "removed", r > 0);
		json_close(&j, '}');
		buf_puts(&out, "\n");
	} else {
		buf_printf(&out,
			   r > 0 ? "Login for %s removed\n"
				 : "There is no login for %s\n",
			   ref.registry);
	}
	return image_end(&image_logout, r, &err, &out);
}

const struct command image_login = {
	.name = "image login",
	.summary = "Store a login for a registry, after checking it there.",
	.about = "REGISTRY is HOST or HOST:PORT (default: " DEFAULT_REGISTRY
		 "). The login is stored in\n"
		 "the docker configuration, or in the credential helper that it names.\n",
	.opts = &(const struct opts){ .table = login_table,
				      .n = ARRAY_SIZE(login_table),
				      .operands = "[REGISTRY]",
				      .example = "warren login -u me --password-stdin "
						 "registry.lan:5000",
				      .mixed = true },
	.run = image_cmd_login,
};

const struct command image_logout = {
	.name = "image logout",
	.summary = "Remove the login for a registry.",
	.about = "REGISTRY is HOST or HOST:PORT (default: " DEFAULT_REGISTRY ").\n",
	.opts = &(const struct opts){ .table = logout_table,
				      .n = ARRAY_SIZE(logout_table),
				      .operands = "[REGISTRY]",
				      .example = "warren logout registry.lan:5000",
				      .mixed = true },
	.run = image_cmd_logout,
};
