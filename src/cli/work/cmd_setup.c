/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_setup.c - warren setup: prepare a project, and manage the results */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "base/strv.h"
#include "cli/common_options.h"
#include "cli/format.h"
#include "cli/work/commands.h"
#include "cli/work/hide_project.h"
#include "cli/work/setup_print.h"
#include "cli/work/setup_run.h"
#include "cli/work/work_options.h"
#include "cli/work/work_project.h"

#define OUTPUT_MAX (16 << 20)
#define SHORT_KEY  12

static const struct command setup_ls, setup_show, setup_rm;
static const struct command *const setup_verbs[] = { &setup_ls, &setup_show, &setup_rm,
						     NULL };

static int setup_fail(const struct command *cmd, const struct warren_error *err)
{
	if (err->msg[0]) /* otherwise a helper has printed it */
		message_say(cmd->name, "%s", err->msg);
	return STATUS_FAILED;
}

/* ------------------------------------------------------------------- setup */

struct setup_cli_options {
	struct run_options run;
	char **hide; /* patterns */
	bool refresh, yes;
};

#define FIELD(name)      offsetof(struct setup_cli_options, name)
#define SETUP_LIMIT(...) OPT_LIMIT("Limits", FIELD(run.limits), __VA_ARGS__)

/* clang-format off */
static const struct opt setup_table[] = {
	{ "Setup", "refresh", 0, NULL, NULL,
	  "run the steps again, even if their result exists", opt_flag, FIELD(refresh) },
	{ NULL, "yes", 'y', NULL, NULL,
	  "approve setup.sh or 'make setup', and run it without asking", opt_flag, FIELD(yes) },
	{ NULL, OPT_WORKDIR("path of the project in the sandbox (default: its own path)",
		FIELD(run.workdir)) },
	{ NULL, "hide", 0, "PATTERN", "'*.pem'",
	  "hide files, as 'warren work --hide' does", work_set_hide, FIELD(hide) },
	{ NULL, "env", 'e', "NAME[=VALUE]", "DEBUG=1",
	  "set ${localEnv:NAME} in devcontainer.json", value_env, FIELD(run.env_option) },
	{ NULL, OPT_QUIET("print no messages of Warren except errors", FIELD(run.quiet)) },
	{ "Network of the steps", "network", 0, "NETWORK", "packages,git",
	  "packages (the default), git, web, learn, loopback, none",
	  value_network, FIELD(run.network.mode) },
	{ NULL, OPT_ALLOW(FIELD(run.network.rules)) },
	{ NULL, OPT_DENY(FIELD(run.network.rules)) },
	{ "Computer", OPT_IMAGE("python:3.12", "use this image instead of the project's",
		FIELD(run.image)) },
	{ NULL, OPT_PULL(FIELD(run.pull)) },
	{ NULL, OPT_USER("user name, uid or uid:gid (default: the project's, or the image's)",
		FIELD(run.user)) },
	SPEC_LIMITS(SETUP_LIMIT)
};
/* clang-format on */
#undef FIELD

static const struct opts setup_opts = {
	.table = setup_table,
	.n = ARRAY_SIZE(setup_table),
	.operands = "[PATH] | ls | show KEY | rm KEY...",
	.example = "warren setup ~/src/project",
	.mixed = true,
};

static int setup_print_ready(const struct setup_ready *ready)
{
	struct buf AUTO_BUF out = BUF_INIT(OUTPUT_MAX);

	if (ready->key[0])
		buf_printf(&out, "%.*s %s\n", SHORT_KEY, ready->key,
			   ready->cached ? "ready" : "created");
	else
		buf_puts(&out, "nothing to do\n");
	return message_print("setup", &out);
}

/* With the project as `warren work` would show it; @w has the layer that hides files. */
static int setup_project_in(const struct setup_cli_options *o, struct work *w,
			    struct warren_error *err)
{
	AUTO_HIDDEN struct work_hidden hidden = { 0 };
	AUTO_FREE char *hide = NULL;
	struct setup_ready ready;
	struct setup_ready_options options = { .command = "setup",
					       .project = w->project,
					       .project_fd = w->project_fd,
					       .options = &o->run,
					       .yes = o->yes,
					       .refresh = o->refresh };
	int r = hide_project(w, false, o->hide, &hidden, err);

	if (r < 0)
		return r;
	if (asprintf(&hide, "%s/hide", w->dir) < 0) {
		hide = NULL;
		return error_errno(err, ENOMEM, "hide files");
	}
	options.hide = hide;
	options.hidden = w->hidden;
	r = setup_ready(&options, &ready, err);
	if (r < 0)
		return r;
	if (ready.refused && !ready.key[0])
		r = error_set(err, EPERM, "nothing was set up: %s is not approved",
			      ready.refused);
	else
		r = setup_print_ready(&ready);
	setup_ready_done(&ready);
	return r;
}

static int setup_project(const struct setup_cli_options *o, const char *path,
			 struct warren_error *err)
{
	AUTO_FREE char *project = NULL;
	struct warren_error left = WARREN_ERROR_INIT;
	struct work *w = NULL;
	int r = work_project_find(path, &project, err);

	if (r == 0)
		r = works_settle(project, NULL, err);
	if (r == 0)
		r = work_create(
			&(struct work_options){ .project = project, .unlisted = true },
			&w, err);
	if (r < 0 || !w)
		return r;
	r = setup_project_in(o, w, err);
	if (work_remove(w, &left) < 0)
		message_say("setup", "%s", left.msg);
	return r;
}

static int cmd_setup(int argc, char **argv)
{
	const struct command *verb =
		argc > 1 ? command_among(setup_verbs, argv[1], NULL) : NULL;
	struct warren_error err = WARREN_ERROR_INIT;
	struct setup_cli_options o = { 0 };
	char **operands = NULL;
	int status = 0;

	if (verb)
		return verb->run(argc - 1, argv + 1);
	if (command_operands(&work_setup, argc, argv, &o, 0, 1, &operands, &status)) {
		/* So that --deny has something to deny. */
		if (!o.run.network.mode &&
		    o.run.network.rules.allow.n + o.run.network.rules.deny.n > 0)
			o.run.network.mode = "packages";
		if (run_options_finish(&o.run, &err) < 0 ||
		    (status = setup_project(&o, operands[0] ? operands[0] : ".", &err)) <
			    0)
			status = setup_fail(&work_setup, &err);
	}
	(void)strv_free(o.hide);
	run_options_done(&o.run);
	return status;
}

const struct command work_setup = {
	.name = "setup",
	.summary = "Prepare a project for work, and manage the results.",
	.about =
		"PATH is the directory of the project (default: the current one). Runs the steps that\n"
		"'warren detect' shows, in a sandbox that reaches only package registries and what\n"
		"--allow names, and keeps the result, which 'warren work' uses. If there is a result\n"
		"already, nothing is run.\n\n"
		"warren setup ls [--json]        list the results\n"
		"warren setup show KEY [--json]  show one of them\n"
		"warren setup rm KEY...          remove them (--all: all that are not in use)\n",
	.opts = &setup_opts,
	.run = cmd_setup,
};

/* ---------------------------------------------------------------------- ls */

struct setup_list_options {
	bool json, all;
};

static const struct opt setup_ls_table[] = {
	{ .name = "json",
	  .help = "print one JSON object for each result",
	  .set = opt_flag,
	  .field = offsetof(struct setup_list_options, json) },
};

static void setup_layer_json(const struct setup_layer *l, struct buf *out)
{
	struct json j = { .out = out };

	json_open(&j, NULL, '{');
	json_str(&j, "key", l->key);
	json_str(&j, "base", l->base[0] ? l->base : NULL);
	json_str(&j, "project", l->project);
	json_str(&j, "image", l->image);
	json_u64(&j, "created_ms", l->created_ms);
	json_u64(&j, "took_ms", l->took_ms);
	json_open(&j, "steps", '[');
	for (char **v = l->steps; v && *v; v++)
		json_str(&j, NULL, *v);
	json_close(&j, ']');
	json_close(&j, '}');
	buf_puts(out, "\n");
}

/* Print the text, and blanks up to the width @wide of its column. */
static void setup_put_column(struct buf *out, const char *text, size_t wide)
{
	const size_t before = out->len;

	setup_print_text(out, text);
	buf_printf(out, "%*s",
		   out->len - before < wide ? (int)(wide - (out->len - before)) : 0, "");
	buf_puts(out, "  ");
}

/* The columns are as wide as their longest texts, up to 40 characters. */
static void setup_print_table(const struct setup_layer *v, size_t n, struct buf *out)
{
	size_t image = strlen("IMAGE"), project = strlen("PROJECT");
	char ago[HUMAN_MAX];

	for (size_t i = 0; i < n; i++) {
		size_t a = strnlen(v[i].image, 40), b = strnlen(v[i].project, 40);

		image = a > image ? a : image;
		project = b > project ? b : project;
	}
	buf_printf(out, "%-12s  %-14s  %-*s  %-*s  STEPS\n", "KEY", "CREATED", (int)image,
		   "IMAGE", (int)project, "PROJECT");
	for (size_t i = 0; i < n; i++) {
		buf_printf(out, "%-12.*s  %-14s  ", SHORT_KEY, v[i].key,
			   human_ago((time_t)(v[i].created_ms / 1000), time(NULL), ago));
		setup_put_column(out, v[i].image, image);
		setup_put_column(out, v[i].project, project);
		for (char **step = v[i].steps; step && *step; step++) {
			buf_puts(out, step == v[i].steps ? "" : "; ");
			setup_print_text(out, *step);
		}
		buf_puts(out, "\n");
	}
}

static int cmd_setup_ls(int argc, char **argv)
{
	struct buf AUTO_BUF out = BUF_INIT(OUTPUT_MAX);
	struct warren_error err = WARREN_ERROR_INIT;
	struct setup_store store = { .fd = -1 };
	struct setup_list_options o = { 0 };
	struct setup_layer *v = NULL;
	char **operands = NULL;
	size_t n = 0;
	int status = 0;

	if (!command_operands(&setup_ls, argc, argv, &o, 0, 0, &operands, &status))
		return status;
	if (operands[0])
		(void)error_set(&err, EINVAL, "no operands are allowed");
	else if (setup_store_open(NULL, &store, &err) == 0)
		(void)!setup_store_list(&store, &v, &n, &err);
	setup_store_close(&store);
	if (err.code)
		return setup_fail(&setup_ls, &err);
	buf_puts(&out, "");
	if (!o.json && n > 0)
		setup_print_table(v, n, &out);
	for (size_t i = 0; o.json && i < n; i++)
		setup_layer_json(&v[i], &out);
	setup_store_list_done(v, n);
	return message_print(setup_ls.name, &out);
}

static const struct command setup_ls = {
	.name = "setup ls",
	.summary = "List the results of setups.",
	.opts = &(const struct opts){ .table = setup_ls_table,
				      .n = ARRAY_SIZE(setup_ls_table),
				      .example = "warren setup ls" },
	.run = cmd_setup_ls,
};

/* -------------------------------------------------------------------- show */

static void setup_show_lines(const struct setup_layer *l, struct buf *out)
{
	char ago[HUMAN_MAX];

	buf_printf(out, "key      %s\n", l->key);
	if (l->base[0])
		buf_printf(out, "base     %s\n", l->base);
	buf_puts(out, "project  ");
	setup_print_text(out, l->project);
	buf_puts(out, "\nimage    ");
	setup_print_text(out, l->image);
	buf_printf(out, "\ncreated  %s\ntook     %ju.%ju s\n",
		   human_ago((time_t)(l->created_ms / 1000), time(NULL), ago),
		   (uintmax_t)(l->took_ms / 1000), (uintmax_t)(l->took_ms % 1000 / 100));
	for (char **v = l->steps; v && *v; v++) {
		buf_puts(out, "step     ");
		setup_print_text(out, *v);
		buf_puts(out, "\n");
	}
}

static int cmd_setup_show(int argc, char **argv)
{
	struct buf AUTO_BUF out = BUF_INIT(OUTPUT_MAX);
	struct warren_error err = WARREN_ERROR_INIT;
	struct setup_store store = { .fd = -1 };
	struct setup_list_options o = { 0 };
	struct setup_layer l = { .lock = -1 };
	char key[SHA256_DIGITS + 1];
	char **operands = NULL;
	int r, status = 0;

	if (!command_operands(&setup_show, argc, argv, &o, 1, 1, &operands, &status))
		return status;
	r = setup_store_open(NULL, &store, &err);
	if (r == 0)
		r = setup_store_find(&store, operands[0], key, &err);
	if (r == 0)
		r = setup_store_use(&store, key, &l, &err);
	setup_store_close(&store);
	if (r < 0)
		return setup_fail(&setup_show, &err);
	(o.json ? setup_layer_json : setup_show_lines)(&l, &out);
	setup_layer_done(&l);
	return message_print(setup_show.name, &out);
}

static const struct command setup_show = {
	.name = "setup show",
	.summary = "Show one result of a setup.",
	.opts = &(const struct opts){ .table = setup_ls_table,
				      .n = ARRAY_SIZE(setup_ls_table),
				      .operands = "KEY",
				      .example = "warren setup show 3f9ac01b22d4",
				      .mixed = true },
	.run = cmd_setup_show,
};

/* ---------------------------------------------------------------------- rm */

static const struct opt setup_rm_table[] = {
	{ .name = "all",
	  .help = "remove all that are not in use",
	  .set = opt_flag,
	  .field = offsetof(struct setup_list_options, all) },
};

/* Those on top of others first, so repeat until nothing more can be removed. */
static int setup_remove_all(const struct setup_store *store, struct warren_error *err)
{
	bool again = true;

	while (again) {
		struct warren_error ignored = WARREN_ERROR_INIT;
		struct setup_layer *v = NULL;
		size_t n = 0;
		int r = setup_store_list(store, &v, &n, err);

		if (r < 0)
			return r;
		again = false;
		for (size_t i = 0; i < n; i++)
			again |= setup_store_remove(store, v[i].key, &ignored) == 0;
		setup_store_list_done(v, n);
	}
	return 0;
}

static int cmd_setup_rm(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct setup_store store = { .fd = -1 };
	struct setup_list_options o = { 0 };
	char key[SHA256_DIGITS + 1];
	char **operands = NULL;
	int r, first = 0, status = 0;

	if (!command_options(&setup_rm, argc, argv, &o, &first, &status))
		return status;
	operands = argv + first;
	if ((first < argc) == o.all)
		r = error_set(&err, EINVAL, "give keys, or --all (example: %s)",
			      setup_rm.opts->example);
	else
		r = setup_store_open(NULL, &store, &err);
	if (r == 0 && o.all)
		r = setup_remove_all(&store, &err);
	for (; r == 0 && first < argc; first++, operands++) {
		r = setup_store_find(&store, *operands, key, &err);
		if (r == 0)
			r = setup_store_remove(&store, key, &err);
	}
	setup_store_close(&store);
	return r < 0 ? setup_fail(&setup_rm, &err) : 0;
}

static const struct command setup_rm = {
	.name = "setup rm",
	.summary = "Remove results of setups.",
	.opts = &(const struct opts){ .table = setup_rm_table,
				      .n = ARRAY_SIZE(setup_rm_table),
				      .operands = "KEY...",
				      .example = "warren setup rm 3f9ac01b22d4",
				      .mixed = true },
	.run = cmd_setup_rm,
};
