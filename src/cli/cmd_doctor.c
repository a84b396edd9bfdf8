/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_doctor.c - warren doctor: show what this machine can enforce, and how to fix the
 * rest
 */
#include <stddef.h>
#include <string.h>

#include "backend/kind.h"
#include "base/json.h"
#include "cli/backends.h"
#include "cli/cli.h"
#include "cli/common_options.h"

#define OUTPUT_MAX   (256U << 10)
#define STATUS_UNFIT 1 /* a required feature is missing */

struct doctor_options {
	bool json;
};

static const struct opt doctor_table[] = {
	{ NULL, OPT_JSON("print the findings as one JSON object",
			 offsetof(struct doctor_options, json)) },
};

static const struct opts doctor_opts = {
	.table = doctor_table,
	.n = ARRAY_SIZE(doctor_table),
	.example = "warren doctor --json",
};

struct findings {
	const struct warren_feature *v;
	size_t n;
	size_t ok;
	size_t required_missing;
};

static struct findings doctor_count(const struct warren_feature *v, size_t n)
{
	struct findings f = { .v = v, .n = n };

	for (size_t i = 0; i < n; i++) {
		f.ok += v[i].ok;
		f.required_missing += v[i].required && !v[i].ok;
	}
	return f;
}

/* Use symbols if the terminal can show them, words otherwise. */
static bool can_show_signs(void)
{
	static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *value = getenv(names[i]);

		if (!value || !*value) /* the first variable that is set decides */
			continue;
		if (!strcasestr(value, "utf-8") && !strcasestr(value, "utf8"))
			return false;
		return isatty(STDOUT_FILENO) == 1;
	}
	return false;
}

static const char *doctor_mark(const struct warren_feature *f, bool signs)
{
	if (f->ok)
		return signs ? "\xe2\x9c\x93" : "ok      ";
	if (f->required)
		return signs ? "\xe2\x9c\x97" : "MISSING ";
	return signs ? "\xe2\x80\x93" : "missing ";
}

/* If @least is set, list only required features that are missing. */
static void doctor_put_table(const struct findings *f, bool least, struct buf *out)
{
	bool signs = can_show_signs();
	size_t width = 0;

	for (size_t i = 0; i < f->n; i++)
		if (strlen(f->v[i].name) > width)
			width = strlen(f->v[i].name);
	for (size_t i = 0; i < f->n; i++) {
		const struct warren_feature *v = &f->v[i];

		if (least && (v->ok || !v->required))
			continue;
		buf_printf(out, "%s %-*s  %s\n", doctor_mark(v, signs), (int)width,
			   v->name, v->detail);
		if (v->ok)
			continue;
		if (v->effect)
			buf_printf(out, "%*swithout it: %s\n", signs ? 4 : 11, "",
				   v->effect);
		if (v->fix)
			buf_printf(out, "%*sto fix it:  %s\n", signs ? 4 : 11, "",
				   v->fix);
	}
}

static void put_summary(const struct findings *f, struct buf *out)
{
	buf_printf(out, "\n%zu of %zu found. ", f->ok, f->n);
	if (f->required_missing)
		buf_printf(out, "Sandboxes cannot run here: %zu missing but required.\n",
			   f->required_missing);
	else
		buf_puts(out, "Sandboxes can run here.\n");
}

static void doctor_put_features(struct json *j, const struct findings *f)
{
	json_open(j, "features", '[');
	for (size_t i = 0; i < f->n; i++) {
		json_open(j, NULL, '{');
		json_str(j, "name", f->v[i].name);
		json_bool(j, "ok", f->v[i].ok);
		json_bool(j, "required", f->v[i].required);
		json_str(j, "detail", f->v[i].detail);
		json_str(j, "effect", f->v[i].effect);
		json_str(j, "fix", f->v[i].fix);
		json_close(j, '}');
	}
	json_close(j, ']');
}

/* ------------------------------------------------------------- other backends */

/* List the backends that are known without the service's program. */
static void doctor_usual_backends(struct cli_backends *ret)
{
	*ret = (struct cli_backends){ 0 };
	for (size_t i = 0; i < backend_n_kinds; i++) {
		const struct backend_kind *k = backend_kinds[i];

		if (k->offered)
			ret->v[ret->n++] =
				(struct cli_backend){ k->name, k->name,
						      tier_names[k->tier], NULL };
	}
}

/* Query one backend; @err contains the reason if this is not possible. */
static void doctor_put_backend(const struct cli_backend *p, struct buf *text,
			       struct json *j)
{
	struct warren_options options = { .backend = p->kind,
					  .backend_config = p->settings };
	struct warren_error err = WARREN_ERROR_INIT;
	const struct warren_feature *v = NULL;
	struct warren *w = NULL;
	struct findings f;
	size_t n = 0;
	bool asked = warren_open(&options, &w, &err) == 0 &&
		     warren_probe(w, &v, &n, &err) == 0;

	f = doctor_count(v, asked ? n : 0);
	buf_printf(text, "\nBackend %s (tier %s): %s\n", p->name, p->tier,
		   !asked               ? err.msg
		   : f.required_missing ? "cannot be used here."
					: "can be used here.");
	doctor_put_table(&f, f.required_missing > 0, text);
	json_open(j, NULL, '{');
	json_str(j, "name", p->name);
	json_str(j, "kind", p->kind);
	json_str(j, "tier", p->tier);
	json_bool(j, "ok", asked && f.required_missing == 0);
	json_str(j, "reason", asked ? NULL : err.msg);
	doctor_put_features(j, &f);
	json_close(j, '}');
	w = warren_close(w);
}

/* Query all configured backends except the native one, which has already been queried. */
static void doctor_put_backends(struct buf *text, struct json *j)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct cli_backends all = { 0 };

	if (cli_backends_read(&all, &ignored) < 0)
		doctor_usual_backends(&all);
	json_open(j, "backends", '[');
	for (size_t i = 0; i < all.n; i++)
		if (strcmp(all.v[i].kind, backend_kind_native.name) != 0)
			doctor_put_backend(&all.v[i], text, j);
	json_close(j, ']');
	cli_backends_done(&all);
}

/* List sandboxes that no process can reach; null if they cannot be determined. */
static void put_orphans(struct warren *w, struct buf *text, struct json *j)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct warren_orphan *v = NULL;
	size_t n = 0;

	if (warren_orphans(w, &v, &n, &ignored) < 0) {
		json_str(j, "orphans", NULL);
		return;
	}
	json_open(j, "orphans", '[');
	if (n > 0)
		buf_printf(
			text,
			"\n"
			"Orphans: %zu (sandboxes that can no longer be reached; 'warren gc' removes them)\n",
			n);
	for (size_t i = 0; i < n; i++) {
		buf_printf(text, "  %s  %s\n", v[i].id, v[i].detail);
		json_open(j, NULL, '{');
		json_str(j, "id", v[i].id);
		json_u64(j, "pid", (uint64_t)v[i].pid);
		json_u64(j, "uid", v[i].uid);
		json_str(j, "detail", v[i].detail);
		json_close(j, '}');
	}
	json_close(j, ']');
	free(v);
}

static int run_doctor(int argc, char **argv)
{
	AUTO_BUF struct buf text = BUF_INIT(OUTPUT_MAX), out = BUF_INIT(OUTPUT_MAX);
	struct json j = { .out = &out };
	struct warren_error err = WARREN_ERROR_INIT;
	struct doctor_options options = { 0 };
	const struct warren_feature *v = NULL;
	struct warren *w = NULL;
	struct findings f;
	size_t n = 0;
	int first = 0, status = 0;

	if (!command_options(&command_doctor, argc, argv, &options, &first, &status))
		return status;
	if (warren_open(NULL, &w, &err) < 0 || warren_probe(w, &v, &n, &err) < 0) {
		message_say("doctor", "%s", err.msg);
		w = warren_close(w);
		return STATUS_FAILED;
	}
	f = doctor_count(v, n);
	doctor_put_table(&f, false, &text);
	json_open(&j, NULL, '{');
	json_str(&j, "version", warren_version());
	json_bool(&j, "ok", f.required_missing == 0);
	doctor_put_features(&j, &f);
	doctor_put_backends(&text, &j);
	put_orphans(w, &text, &j);
	json_close(&j, '}');
	buf_puts(&out, "\n");
	put_summary(&f, &text);
	w = warren_close(w);
	status = message_print("doctor", options.json ? &out : &text);
	if (status)
		return status;
	return f.required_missing ? STATUS_UNFIT : 0;
}

const struct command command_doctor = {
	.name = "doctor",
	.summary =
		"Show what this machine can enforce, what is missing, and how to fix it.",
	.about =
		"Exit status: 0 when sandboxes can run here, 1 when a required feature is missing,\n"
		"125 when Warren failed.\n",
	.opts = &doctor_opts,
	.run = run_doctor,
};
