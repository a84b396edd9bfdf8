/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template_steps.c - the steps of a template as a Dockerfile
 *
 * Each step is a separate stage, so that the output of the build says which step it
 * belongs to (service/template/build_log.c). Commands run as those of a sandbox do, in a
 * login shell. The archive of COPY is unpacked in a stage without a base.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/e2b/internal.h"
#include "api/path.h"
#include "base/id.h"
#include "base/strv.h"
#include "service/template/template.h"

#define PLAN_DOCKERFILE_MAX (1U << 20)

/*
 * A command $0 of the account $1 in the login shell of the image; $2 only makes it
 * different from others.
 */
static const char run_script[] = "case $1 in *[!0-9]*) u=$1;; "
				 "*) u=$(id -un 2>/dev/null) || u=$1;; esac; "
				 "USER=${USER-$u} LOGNAME=${LOGNAME-$u}; "
				 "export USER LOGNAME; "
				 "if [ -x /bin/bash ]; then exec /bin/bash -l -c \"$0\"; "
				 "fi; exec /bin/sh -l -c \"$0\"";

/* Create the account $0, unless it exists; without tools that an image may lack. */
static const char user_script[] =
	"u=1000; g=; mkdir -p /etc && : >>/etc/passwd && : >>/etc/group || exit 1; "
	"while IFS=: read -r n x i r; do [ \"$n\" = \"$0\" ] && exit 0; "
	"[ \"$i\" -ge $u ] 2>/dev/null && [ \"$i\" -lt 60000 ] && u=$((i + 1)); "
	"done </etc/passwd; "
	"while IFS=: read -r n x i r; do [ \"$n\" = \"$0\" ] && g=1; "
	"[ \"$i\" -ge $u ] 2>/dev/null && [ \"$i\" -lt 60000 ] && u=$((i + 1)); "
	"done </etc/group; "
	"s=/bin/sh; [ -x /bin/bash ] && s=/bin/bash; "
	"echo \"$0:x:$u:$u:$0:/home/$0:$s\" >>/etc/passwd; "
	"[ \"$g\" ] || echo \"$0:x:$u:\" >>/etc/group; "
	"mkdir -p \"/home/$0\" && chown \"$u:$u\" \"/home/$0\"";

/* Give the directory $d to the account $u; the group of a number without one is root. */
#define GIVE_DIRECTORY                                                             \
	"o=$u; while IFS=: read -r n x i r; do [ \"$i\" = \"$u\" ] && o=$n; done " \
	"</etc/passwd; chown \"$o:\" \"$d\" 2>/dev/null || chown \"$u:0\" \"$d\""

/* Create the directory $d for the account $u. The last line of an error is its reason. */
#define MAKE_DIRECTORY                                                         \
	"[ -d \"$d\" ] || { mkdir -p \"$d\" && { " GIVE_DIRECTORY "; }; } || " \
	"{ echo \"WORKDIR: cannot create the directory '$d'\" >&2; exit 1; }"

/* Create the directory $0 for the account $1. */
static const char workdir_script[] = "d=$0 u=$1; " MAKE_DIRECTORY;

/* The same for a path with variables, which only the build knows. */
static const char variable_workdir_script[] =
	"d=$WARREN_DIR u=$0; "
	"case $d in '') echo 'WORKDIR: the path is empty' >&2; exit 1;; "
	"/*) ;; *) d=$PWD/$d;; esac; " MAKE_DIRECTORY;

struct plan_step {
	struct template_plan *plan;
	size_t number;
	json_t *args;
	size_t n_args;
	const char *hash;
	struct api_error *err;
};

static const char *step_arg(const struct plan_step *s, size_t i)
{
	const char *text = json_string_value(json_array_get(s->args, i));

	return text ? text : "";
}

static int step_refuse(const struct plan_step *s, const char *why)
{
	return api_error_set(s->err, API_ERR_INVALID_REQUEST, "steps: step %zu: %s",
			     s->number, why);
}

/* ----------------------------------------------------------------- instructions */

static void plan_put_words(struct template_plan *p, const char *before,
			   const char *const *words)
{
	struct json j = { .out = &p->dockerfile };

	buf_puts(&p->dockerfile, before);
	json_open(&j, NULL, '[');
	for (; *words; words++)
		json_str(&j, NULL, *words);
	json_close(&j, ']');
	buf_puts(&p->dockerfile, "\n");
}

/* Up to three arguments, the last of which may be NULL. */
static void plan_put_script(struct template_plan *p, const char *script, const char *a,
			    const char *b, const char *c)
{
	plan_put_words(p, "RUN ",
		       (const char *const[]){ "/bin/sh", "-c", script, a, b, c, NULL });
}

static void step_begin(const struct plan_step *s)
{
	if (s->number == 1)
		buf_printf(&s->plan->dockerfile, "FROM base AS step1\n");
	else
		buf_printf(&s->plan->dockerfile, "FROM step%zu AS step%zu\n",
			   s->number - 1, s->number);
}

/* A word of a Dockerfile, in which only the characters of variables are special. */
static char *plan_escape(const char *text, const char *special)
{
	char *out = malloc(strlen(text) * 2 + 1), *at = out;

	for (; out && *text; text++) {
		if (strchr(special, *text))
			*at++ = '\\';
		*at++ = *text;
	}
	if (out)
		*at = '\0';
	return out;
}

/* A word outside and inside of quotes; the latter can have spaces. */
#define PLAN_WORD          "\\'\"$"
#define PLAN_VARIABLE_WORD "\\'\""
#define PLAN_QUOTED        "\\\"$"
#define PLAN_VARIABLE      "\\\""

static int steps_no_memory(struct api_error *err)
{
	return api_error_set(err, API_ERR_OVERLOADED, "out of memory");
}

static int plan_put_quoted(struct template_plan *p, const char *before, const char *text,
			   const char *special, struct api_error *err)
{
	AUTO_FREE char *escaped = plan_escape(text, special);

	if (!escaped)
		return steps_no_memory(err);
	buf_printf(&p->dockerfile, "%s\"%s\"\n", before, escaped);
	return 0;
}

static bool step_user_is_valid(const char *user)
{
	return *user && *user != '-' && strlen(user) < 64 &&
	       strspn(user, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			    "0123456789_.-") == strlen(user);
}

static bool step_user_is_number(const char *user)
{
	return strspn(user, "0123456789") == strlen(user);
}

/* ------------------------------------------------------------------------ steps */

static int step_put_run(const struct plan_step *s)
{
	struct template_plan *p = s->plan;
	const char *user = step_arg(s, 1);
	char nonce[ID_LEN + 1] = "";

	if (!*step_arg(s, 0))
		return step_refuse(s, "RUN needs a command");
	if (*user && !step_user_is_valid(user))
		return step_refuse(s, "the user is not valid");
	if (p->force)
		id_make(nonce);
	step_begin(s);
	buf_printf(&p->dockerfile, "USER %s\n", *user ? user : p->user);
	plan_put_script(p, run_script, step_arg(s, 0), *user ? user : p->user,
			p->force ? nonce : NULL);
	if (*user)
		buf_printf(&p->dockerfile, "USER %s\n", p->user);
	return 0;
}

/* The owner of files: "user" or "user:group". */
static bool step_owner_is_valid(const char *owner)
{
	const char *colon = strchr(owner, ':');
	char user[64];

	if (!colon)
		return step_user_is_valid(owner);
	(void)snprintf(user, sizeof(user), "%.*s", (int)(colon - owner), owner);
	return colon - owner < (ptrdiff_t)sizeof(user) && step_user_is_valid(user) &&
	       step_user_is_valid(colon + 1);
}

static bool step_mode_is_valid(const char *mode)
{
	return strlen(mode) <= 5 && strspn(mode, "01234567") == strlen(mode);
}

static int step_put_copy(const struct plan_step *s)
{
	struct template_plan *p = s->plan;
	const char *source = step_arg(s, 0), *target = step_arg(s, 1);
	const char *owner = step_arg(s, 2), *mode = step_arg(s, 3);
	AUTO_FREE char *from = NULL, *to = NULL, *rooted = NULL;
	char before[256];

	if (!s->hash || !e2b_hash_is_valid(s->hash))
		return step_refuse(s, "COPY needs the field filesHash");
	if (!*source || !*target)
		return step_refuse(s, "COPY needs a source and a destination");
	if (*owner && !step_owner_is_valid(owner))
		return step_refuse(s, "the owner must be USER or USER:GROUP");
	if (*mode && !step_mode_is_valid(mode))
		return step_refuse(s, "the mode is not valid");
	source += strncmp(source, "./", 2) == 0 ? 2 : 0;
	source += strspn(source, "/");
	from = plan_escape(source, PLAN_WORD);
	to = plan_escape(target, PLAN_VARIABLE_WORD);
	if (!from || !to || asprintf(&rooted, "/%s", from) < 0) {
		rooted = NULL;
		return steps_no_memory(s->err);
	}
	buf_printf(&p->dockerfile,
		   "FROM scratch AS files%zu\nADD " TEMPLATE_ARCHIVE_NAME " /\n",
		   s->number, s->hash);
	step_begin(s);
	(void)snprintf(before, sizeof(before), "COPY --from=files%zu --chown=%s%s%s ",
		       s->number, *owner ? owner : p->user, *mode ? " --chmod=" : "",
		       mode);
	plan_put_words(p, before, (const char *const[]){ rooted, to, NULL });
	p->hashes[s->number - 1] = s->hash;
	return 0;
}

/* Variables in a value are expanded, as the SDK documents it. */
static int step_put_env(const struct plan_step *s)
{
	struct template_plan *p = s->plan;

	if (s->n_args == 0 || s->n_args % 2 != 0)
		return step_refuse(s, "ENV needs names and values");
	step_begin(s);
	/* Commands of the account have these variables. */
	if (strcmp(p->user, "root") == 0 || strcmp(p->user, "0") == 0)
		buf_puts(&p->dockerfile, "ARG HOME=/root\n");
	else if (step_user_is_number(p->user))
		buf_puts(&p->dockerfile, "ARG HOME=/\n");
	else
		buf_printf(&p->dockerfile, "ARG HOME=/home/%s\n", p->user);
	buf_printf(&p->dockerfile, "ARG USER=%s\nARG LOGNAME=%s\n", p->user, p->user);
	for (size_t i = 0; i < s->n_args; i += 2) {
		const char *name = step_arg(s, i), *value = step_arg(s, i + 1);

		if (!*name || isdigit((unsigned char)*name) ||
		    strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				 "0123456789_") != strlen(name))
			return step_refuse(s, "the name of a variable is not valid");
		if (strpbrk(value, "\r\n"))
			return step_refuse(s, "the value of a variable has only one "
					      "line");
		buf_printf(&p->dockerfile, "ENV %s=\"", name);
		for (; *value; value++)
			buf_printf(&p->dockerfile, "%s%c",
				   strchr("\"\\", *value) ? "\\" : "", *value);
		buf_puts(&p->dockerfile, "\"\n");
	}
	return 0;
}

/* A path with variables, or relative to one: only the build knows it. */
static int step_put_variable_workdir(const struct plan_step *s, const char *asked)
{
	struct template_plan *p = s->plan;
	int r;

	step_begin(s);
	r = plan_put_quoted(p, "ARG WARREN_DIR=", asked, PLAN_VARIABLE, s->err);
	buf_puts(&p->dockerfile, "USER root\n");
	plan_put_script(p, variable_workdir_script, p->user, NULL, NULL);
	buf_printf(&p->dockerfile, "USER %s\n", p->user);
	p->workdir[0] = '\0';
	return r < 0 ? r : plan_put_quoted(p, "WORKDIR ", asked, PLAN_VARIABLE, s->err);
}

static int step_put_workdir(const struct plan_step *s)
{
	struct template_plan *p = s->plan;
	const char *asked = step_arg(s, 0);
	char path[4096];

	if (!*asked)
		return step_refuse(s, "WORKDIR needs a path");
	if (strpbrk(asked, "\r\n"))
		return step_refuse(s, "the path of WORKDIR has only one line");
	if (strchr(asked, '$') || (!p->workdir[0] && asked[0] != '/'))
		return step_put_variable_workdir(s, asked);
	if (!api_path(p->workdir, asked, path))
		return step_refuse(s, "the path of WORKDIR is too long");
	step_begin(s);
	buf_puts(&p->dockerfile, "USER root\n");
	plan_put_script(p, workdir_script, path, p->user, NULL);
	buf_printf(&p->dockerfile, "USER %s\n", p->user);
	(void)strcpy(p->workdir, path);
	return plan_put_quoted(p, "WORKDIR ", path, PLAN_QUOTED, s->err);
}

static int step_put_user(const struct plan_step *s)
{
	struct template_plan *p = s->plan;
	const char *user = step_arg(s, 0);

	if (!step_user_is_valid(user))
		return step_refuse(s, "the user is not valid");
	step_begin(s);
	/* A number needs no account. */
	if (!step_user_is_number(user)) {
		buf_puts(&p->dockerfile, "USER root\n");
		plan_put_script(p, user_script, user, NULL, NULL);
	}
	buf_printf(&p->dockerfile, "USER %s\n", user);
	(void)snprintf(p->user, sizeof(p->user), "%s", user);
	return 0;
}

static const struct {
	const char *type;
	int (*put)(const struct plan_step *s);
} step_types[] = {
	{ "RUN", step_put_run },   { "COPY", step_put_copy },
	{ "ENV", step_put_env },   { "WORKDIR", step_put_workdir },
	{ "USER", step_put_user },
};

/* ------------------------------------------------------------------------- plan */

/* The text of the step, for the log. */
static int plan_add_text(struct template_plan *p, const char *type, json_t *args)
{
	AUTO_BUF struct buf text = BUF_INIT(8192);
	json_t *arg;
	size_t i;

	/* The second argument of RUN is its user. */
	buf_puts(&text, type);
	if (strcmp(type, "RUN") == 0) {
		const char *command = json_string_value(json_array_get(args, 0));

		buf_printf(&text, " %.4000s", command ? command : "");
		return strv_add(&p->steps, text.data);
	}
	json_array_foreach(args, i, arg) buf_printf(
		&text, " %.2000s", json_string_value(arg) ? json_string_value(arg) : "");
	return text.failed ? strv_add(&p->steps, type) : strv_add(&p->steps, text.data);
}

static int plan_put_step(struct template_plan *p, size_t number, json_t *value,
			 struct api_error *err)
{
	const char *type = json_string_value(json_object_get(value, "type"));
	struct plan_step s = {
		.plan = p,
		.number = number,
		.args = json_object_get(value, "args"),
		.hash = json_string_value(json_object_get(value, "filesHash")),
		.err = err,
	};

	s.n_args = json_array_size(s.args);
	p->force |= json_is_true(json_object_get(value, "force"));
	if (plan_add_text(p, type, s.args) < 0)
		return api_error_set(err, API_ERR_OVERLOADED, "out of memory");
	for (size_t i = 0; i < ARRAY_SIZE(step_types); i++)
		if (strcmp(type, step_types[i].type) == 0)
			return step_types[i].put(&s);
	return step_refuse(&s, "its type must be RUN, COPY, ENV, WORKDIR or USER");
}

int template_plan_make(struct template_plan *p, json_t *steps, struct api_error *err)
{
	json_t *value;
	size_t i;
	int r = 0;

	p->dockerfile = (struct buf)BUF_INIT(PLAN_DOCKERFILE_MAX);
	p->n = json_array_size(steps);
	if (p->n > TEMPLATE_STEPS_MAX)
		return api_error_set(err, API_ERR_INVALID_REQUEST,
				     "steps: a template has at most %d steps",
				     TEMPLATE_STEPS_MAX);
	p->hashes = calloc(p->n + 1, sizeof(*p->hashes));
	if (!p->hashes)
		return api_error_set(err, API_ERR_OVERLOADED, "out of memory");
	buf_printf(&p->dockerfile, "FROM %s AS base\n", p->base);
	if (p->prepare) {
		buf_puts(&p->dockerfile, "USER root\n");
		plan_put_script(p, user_script, p->user, NULL, NULL);
	}
	buf_printf(&p->dockerfile, "USER %s\n", p->user);
	if (p->workdir[0])
		r = plan_put_quoted(p, "WORKDIR ", p->workdir, PLAN_QUOTED, err);
	json_array_foreach(steps, i, value) if (r == 0) r =
		plan_put_step(p, i + 1, value, err);
	if (r == 0 && p->dockerfile.failed)
		r = api_error_set(err, API_ERR_INVALID_REQUEST,
				  "steps: they have more than %u bytes",
				  PLAN_DOCKERFILE_MAX);
	return r;
}

void template_plan_done(struct template_plan *p)
{
	buf_done(&p->dockerfile);
	p->steps = strv_free(p->steps);
	free((void *)p->hashes);
}
