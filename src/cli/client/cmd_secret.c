/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_secret.c - warren secret set, ls and rm: manage secrets
 *
 * A value is never an argument, because other users of the machine can read arguments. It
 * comes from stdin, or from the terminal without echo.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/secret_name.h"
#include "cli/client/commands.h"
#include "cli/client/table.h"
#include "cli/common_options.h"

#define VALUE_MAX 16384

struct secret_options {
	bool quiet;
	bool json;
};

#define FIELD(name) offsetof(struct secret_options, name)

/* clang-format off */
static const struct opt secret_ls_table[] = {
	{ NULL, OPT_QUIET("print names only", FIELD(quiet)) },
	{ NULL, OPT_JSON("print one JSON array", FIELD(json)) },
};

static const struct opt secret_rm_table[] = {
	{ NULL, OPT_JSON("print what was removed, one JSON object on each line", FIELD(json)) },
};
/* clang-format on */

static const struct command secret_set, secret_ls, secret_rm;

/* Read a line from the terminal, or all of stdin. Return the length, or -errno. */
static ssize_t secret_read_stdin(const char *name, char *value, size_t size)
{
	struct termios shown, hidden;
	bool terminal = tcgetattr(STDIN_FILENO, &shown) == 0;
	ssize_t n;

	if (!terminal)
		return fd_read_all(STDIN_FILENO, value, size);
	hidden = shown;
	hidden.c_lflag &= ~(tcflag_t)ECHO;
	/* Disable the echo before the question, because this call discards input that was
	 * typed before it. */
	if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden) < 0)
		return -errno;
	(void)fprintf(stderr, "Value of %s (not shown): ", name);
	(void)fflush(stderr);
	n = read(STDIN_FILENO, value, size);
	n = n < 0 ? -errno : n;
	(void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &shown);
	(void)fputc('\n', stderr);
	return n;
}

/* Read the value without its trailing newline, as NUL-terminated text. */
static int secret_read_value(const char *name, char value[VALUE_MAX + 2],
			     struct warren_error *err)
{
	ssize_t n = secret_read_stdin(name, value, VALUE_MAX + 2);

	if (n < 0)
		return error_errno(err, (int)-n, "read the value from stdin");
	if (n > 0 && value[n - 1] == '\n')
		n--;
	if (n == 0)
		return error_set(err, EINVAL, "the value on stdin is empty");
	if (n > VALUE_MAX)
		return error_set(err, EINVAL, "the value is longer than %d bytes",
				 VALUE_MAX);
	if (memchr(value, '\0', (size_t)n))
		return error_set(err, EINVAL, "the value contains a NUL");
	value[n] = '\0';
	return 0;
}

static int secret_put_value(struct client *c, const char *name, struct warren_error *err)
{
	char value[VALUE_MAX + 2], path[128];
	json_t *body;
	int r = secret_read_value(name, value, err);

	if (r == 0) {
		(void)snprintf(path, sizeof(path), "/v1/secrets/%s", name);
		body = json_pack("{ss}", "value", value);
		r = body ? client_call(c, "PUT", path, body, NULL, err)
			 : error_set(err, EINVAL, "the value is not UTF-8");
		json_decref(body);
	}
	explicit_bzero(value, sizeof(value));
	return r;
}

static int secret_check_name(const struct command *cmd, const char *name)
{
	if (secret_name_ok(name))
		return 0;
	message_say(
		cmd->name,
		"'%.80s' is not the name of a secret: use letters, digits and '_', not "
		"starting with a digit",
		name);
	return STATUS_FAILED;
}

static int secret_run_set(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct secret_options o = { 0 };
	AUTO_CLIENT struct client *c = NULL;
	char **words = NULL;
	int status = 0;

	if (!command_operands(&secret_set, argc, argv, &o, 1, 1, &words, &status))
		return status;
	if (secret_check_name(&secret_set, *words) != 0)
		return STATUS_FAILED;
	if (client_open(&c, &err) < 0 || secret_put_value(c, *words, &err) < 0)
		return client_fail(&secret_set, &err);
	return 0;
}

static int secret_collect(void *arg, json_t *item)
{
	return json_array_append(arg, item);
}

static void secret_put_row(struct table *t, const json_t *secret)
{
	AUTO_BUF struct buf created = BUF_INIT(64), updated = BUF_INIT(64);

	put_ago(&created, print_text_of(secret, "created_at"));
	put_ago(&updated, print_text_of(secret, "updated_at"));
	table_cell(t, "%s", print_text_of(secret, "name"));
	table_cell(t, "%s", created.data);
	table_cell(t, "%s", updated.data);
}

static int secret_run_ls(int argc, char **argv)
{
	AUTO_TABLE struct table t = TABLE_INIT("NAME", "CREATED", "UPDATED");
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	AUTO_JSON json_t *all = json_array();
	struct warren_error err = WARREN_ERROR_INIT;
	struct secret_options o = { 0 };
	AUTO_CLIENT struct client *c = NULL;
	char **words = NULL;
	int status = 0;

	if (!command_operands(&secret_ls, argc, argv, &o, 0, 0, &words, &status))
		return status;
	if (client_open(&c, &err) < 0 ||
	    client_list(c, "/v1/secrets", "secrets", secret_collect, all, &err) < 0)
		return client_fail(&secret_ls, &err);
	if (o.json)
		return print_json(&secret_ls, all);
	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *secret = json_array_get(all, i);

		secret_put_row(&t, secret);
		if (o.quiet)
			buf_printf(&out, "%s\n", print_text_of(secret, "name"));
	}
	if (!o.quiet)
		table_put(&t, 0, "\n", &out);
	return message_print(secret_ls.name, &out);
}

static int secret_print_gone(const char *name)
{
	AUTO_JSON json_t *gone = json_pack("{ss}", "name", name);

	return print_json(&secret_rm, gone);
}

static int secret_run_rm(int argc, char **argv)
{
	struct secret_options o = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_CLIENT struct client *c = NULL;
	char **words = NULL;
	int status = 0;

	if (!command_operands(&secret_rm, argc, argv, &o, 1, 0, &words, &status))
		return status;
	if (client_open(&c, &err) < 0)
		return client_fail(&secret_rm, &err);
	for (; *words; words++) {
		char path[128];

		if (secret_check_name(&secret_rm, *words) != 0) {
			status = STATUS_FAILED;
			continue;
		}
		(void)snprintf(path, sizeof(path), "/v1/secrets/%s", *words);
		if (client_call(c, "DELETE", path, NULL, NULL, &err) < 0)
			status = client_fail(&secret_rm, &err);
		else if (o.json && secret_print_gone(*words) != 0)
			return STATUS_FAILED;
	}
	return status;
}

/* Complete the names of secrets, at every position. */
static void complete_secrets(int at UNUSED, struct buf *out)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_CLIENT struct client *c = NULL;
	AUTO_JSON json_t *all = json_array();

	if (client_open(&c, &err) < 0 ||
	    client_list(c, "/v1/secrets", "secrets", secret_collect, all, &err) < 0)
		return;
	for (size_t i = 0; i < json_array_size(all); i++)
		buf_printf(out, "%s\n", print_text_of(json_array_get(all, i), "name"));
}

static const struct command secret_set = {
	.name = "secret set",
	.summary = "Create a secret or replace its value, which is read from stdin.",
	.about =
		"A newline at the end of the value is removed. On a terminal, the value is\n"
		"asked for and not shown.\n",
	.opts = &(const struct opts){ .operands = "NAME",
				      .example =
					      "warren secret set GITHUB_TOKEN <token.txt",
				      .mixed = true },
	.run = secret_run_set,
	.complete = complete_secrets,
};

static const struct command secret_ls = {
	.name = "secret ls",
	.summary = "List the names of secrets.",
	.opts = &(const struct opts){ .table = secret_ls_table,
				      .n = ARRAY_SIZE(secret_ls_table),
				      .example = "warren secret ls" },
	.run = secret_run_ls,
};

static const struct command secret_rm = {
	.name = "secret rm",
	.summary = "Delete secrets.",
	.opts = &(const struct opts){ .table = secret_rm_table,
				      .n = ARRAY_SIZE(secret_rm_table),
				      .operands = "NAME...",
				      .example = "warren secret rm GITHUB_TOKEN",
				      .mixed = true },
	.run = secret_run_rm,
	.complete = complete_secrets,
};

static const struct command *const secret_verbs[] = { &secret_set, &secret_ls, &secret_rm,
						      NULL };

static int secret_run(int argc, char **argv)
{
	return verbs_run(&client_secret, argc, argv);
}

const struct command client_secret = {
	.name = "secret",
	.summary = "Set, list and delete secrets.",
	.opts =
		&(const struct opts){
			.operands = "COMMAND [ARG...]",
			.example = "warren secret set GITHUB_TOKEN <token.txt" },
	.run = secret_run,
	.verbs = secret_verbs,
};
