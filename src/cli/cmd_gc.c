/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_gc.c - warren gc: remove sandboxes whose run directory is gone */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/common_options.h"

#define OUTPUT_MAX  (4U << 20)
#define STATUS_LEFT 1 /* some sandboxes were not removed */

struct gc_options {
	bool yes, json;
};

static const struct opt gc_table[] = {
	{ NULL, "yes", 'y', NULL, NULL, "remove them without asking", opt_flag,
	  offsetof(struct gc_options, yes) },
	{ NULL, OPT_JSON("print the orphans as one JSON object; without --yes, remove "
			 "none",
			 offsetof(struct gc_options, json)) },
};

static const struct opts gc_opts = {
	.table = gc_table,
	.n = ARRAY_SIZE(gc_table),
	.operands = "[ID...]",
	.example = "warren gc --yes",
};

/* Ask for confirmation at a terminal; otherwise, --yes must be given. */
static bool gc_agrees(size_t n)
{
	char answer[16] = "";

	if (isatty(STDIN_FILENO) != 1) {
		message_say("gc", "nothing was removed: there is no terminal to ask on "
				  "(example: warren gc --yes)");
		return false;
	}
	(void)fprintf(stderr, "Remove %s? [y/N] ", n == 1 ? "it" : "all of them");
	return fgets(answer, sizeof(answer), stdin) &&
	       (strcmp(answer, "y\n") == 0 || strcmp(answer, "yes\n") == 0);
}

static void put_orphan(struct json *j, const struct warren_orphan *o, bool removed,
		       const char *error)
{
	json_open(j, NULL, '{');
	json_str(j, "id", o->id);
	json_u64(j, "pid", (uint64_t)o->pid);
	json_u64(j, "uid", o->uid);
	json_str(j, "detail", o->detail);
	json_bool(j, "removed", removed);
	json_str(j, "error", error);
	json_close(j, '}');
}

/* Keep only the orphans that @only names, unless it is empty. Return their number. */
static size_t keep_named(struct warren_orphan *v, size_t n, char *const *only)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		bool named = !*only;

		for (char *const *id = only; *id && !named; id++)
			named = strcmp(*id, v[i].id) == 0;
		if (named)
			v[kept++] = v[i];
	}
	return kept;
}

/* Return how many are left. */
static size_t gc_remove_all(struct warren *w, const struct warren_orphan *v, size_t n,
			    bool wanted, struct json *j)
{
	size_t left = 0;

	json_open(j, NULL, '{');
	json_open(j, "orphans", '[');
	for (size_t i = 0; i < n; i++) {
		struct warren_error err = WARREN_ERROR_INIT;
		int r = wanted ? warren_remove_orphan(w, v[i].id, &err) : 0;

		/* Another process removed it first, so it is gone, as intended. */
		if (r == -ENOENT)
			r = 0;
		if (r < 0)
			message_say("gc", "%s", err.msg);
		left += !wanted || r < 0;
		put_orphan(j, &v[i], wanted && r == 0, r < 0 ? err.msg : NULL);
	}
	json_close(j, ']');
	json_close(j, '}');
	return left;
}

static int run_gc(int argc, char **argv)
{
	AUTO_BUF struct buf text = BUF_INIT(OUTPUT_MAX), out = BUF_INIT(OUTPUT_MAX);
	struct warren_error err = WARREN_ERROR_INIT;
	struct json j = { .out = &out };
	struct gc_options o = { 0 };
	struct warren_orphan *v = NULL;
	struct warren *w = NULL;
	char **only = NULL;
	int status = 0;
	size_t n = 0, left;
	bool wanted;

	if (!command_operands(&command_gc, argc, argv, &o, 0, 0, &only, &status))
		return status;
	if (warren_open(NULL, &w, &err) < 0 || warren_orphans(w, &v, &n, &err) < 0) {
		message_say("gc", "%s", err.msg);
		w = warren_close(w);
		return STATUS_FAILED;
	}
	n = keep_named(v, n, only);
	for (size_t i = 0; i < n; i++)
		buf_printf(&text, "%s  %s\n", v[i].id, v[i].detail);
	if (n == 0)
		buf_puts(&text, "No orphans.\n");
	if (!o.json && message_print("gc", &text) != 0)
		n = 0;
	wanted = n > 0 && (o.yes || (!o.json && gc_agrees(n)));
	left = gc_remove_all(w, v, n, wanted, &j);
	buf_puts(&out, "\n");
	free(v);
	w = warren_close(w);
	status = o.json ? message_print("gc", &out) : 0;
	if (status == 0 && !o.json && wanted)
		message_say("gc", "%zu removed, %zu left", n - left, left);
	return status ? status : left ? STATUS_LEFT : 0;
}

const struct command command_gc = {
	.name = "gc",
	.summary = "Remove sandboxes whose run directory is gone.",
	.about =
		"Lists the orphans of this machine and asks before it removes them. A sandbox whose\n"
		"run directory exists is never an orphan, whichever service or user it belongs to.\n"
		"With IDs, only these orphans are considered.\n"
		"\n"
		"Exit status: 0 when no orphan is left, 1 when some are, 125 when Warren failed.\n",
	.opts = &gc_opts,
	.run = run_gc,
};
