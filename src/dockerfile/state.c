/* SPDX-License-Identifier: Apache-2.0 */
/* state.c - apply the instructions that change an image's configuration */
#include "dockerfile/state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/parse.h"
#include "base/strv.h"
#include "dockerfile/vars.h"

/* An instruction that is being applied. */
struct apply_op {
	const struct dockerfile *d;
	const struct dockerfile_instruction *i;
	const struct dockerfile_args *args;
	struct dockerfile_state *s;
	struct warren_error *err;
};

void dockerfile_state_done(struct dockerfile_state *s)
{
	char **lists[] = { s->env,     s->args,       s->shell,
			   s->cmd,     s->entrypoint, s->labels,
			   s->exposed, s->volumes,    s->health.test };
	char *texts[] = { s->user, s->workdir, s->stop_signal, s->maintainer };

	for (size_t k = 0; k < ARRAY_SIZE(lists); k++)
		(void)strv_free(lists[k]);
	for (size_t k = 0; k < ARRAY_SIZE(texts); k++)
		free(texts[k]);
	*s = (struct dockerfile_state){ 0 };
}

int dockerfile_state_copy(const struct dockerfile_state *s, struct dockerfile_state *ret)
{
	struct dockerfile_state c = { .health = s->health };
	const struct {
		char **from, ***to;
	} lists[] = { { s->env, &c.env },         { s->shell, &c.shell },
		      { s->cmd, &c.cmd },         { s->entrypoint, &c.entrypoint },
		      { s->labels, &c.labels },   { s->exposed, &c.exposed },
		      { s->volumes, &c.volumes }, { s->health.test, &c.health.test } };
	const struct {
		char *from, **to;
	} texts[] = { { s->user, &c.user },
		      { s->workdir, &c.workdir },
		      { s->stop_signal, &c.stop_signal },
		      { s->maintainer, &c.maintainer } };
	bool ok = true;

	c.health.test = NULL;
	for (size_t k = 0; k < ARRAY_SIZE(lists); k++)
		if (lists[k].from)
			ok &= (*lists[k].to = strv_copy(lists[k].from)) != NULL;
	for (size_t k = 0; k < ARRAY_SIZE(texts); k++)
		if (texts[k].from)
			ok &= (*texts[k].to = strdup(texts[k].from)) != NULL;
	if (!ok) {
		dockerfile_state_done(&c);
		return -ENOMEM;
	}
	*ret = c;
	return 0;
}

static int apply_failed(struct apply_op *op, int r)
{
	if (r == -E2BIG)
		return error_set(op->err, E2BIG, "there are too many values");
	return r < 0 ? error_errno(op->err, -r, "apply the instruction") : 0;
}

/* The instruction's only word, expanded. */
static int apply_word(struct apply_op *op, char **ret)
{
	int r = vars_expand(op->d, op->s, op->i->args[0], ret, op->err);

	if (r == 0 && !(*ret)[0]) {
		free(TAKE_PTR(*ret));
		return error_set(op->err, EINVAL, "the value is empty");
	}
	return r;
}

static int apply_text(struct apply_op *op, char **field)
{
	char *value = NULL;
	int r = apply_word(op, &value);

	if (r < 0)
		return r;
	free(*field);
	*field = value;
	return 0;
}

/* ------------------------------------------------------------- ARG, ENV, LABEL */

/* Expand the default value of an argument, if it has one. */
static int arg_default(struct words_vars *vars, const char *word, char **ret,
		       struct warren_error *err)
{
	const char *equals = strchr(word, '=');

	*ret = NULL;
	return equals ? words_expand(vars, equals + 1, ret, err) : 0;
}

static int arg_check_name(const char *word, struct warren_error *err)
{
	size_t n = strcspn(word, "=");

	if (n == 0 || strcspn(word, "'\"$\\") < n)
		return error_set(err, EINVAL, "'%.80s' is not NAME or NAME=value", word);
	return 0;
}

/* Within one instruction, an argument can use those before it. */
static int apply_arg(struct apply_op *op)
{
	int r = 0;

	for (char **a = op->i->args; r == 0 && *a; a++) {
		struct vars_scope scope = { { op->s->env, op->s->args, vars_defaults } };
		struct words_vars vars = vars_in(op->d, &scope);
		AUTO_FREE char *own = NULL;
		size_t n = strcspn(*a, "=");
		const char *value;

		r = arg_check_name(*a, op->err);
		if (r == 0)
			r = arg_default(&vars, *a, &own, op->err);
		if (r < 0)
			return r;
		value = dockerfile_var(op->args->given, *a, n);
		if (!value)
			value = own;
		if (!value)
			value = dockerfile_var(op->args->global, *a, n);
		if (!value)
			value = dockerfile_var(op->args->platform, *a, n);
		if (value)
			r = apply_failed(op,
					 dockerfile_var_set(&op->s->args, *a, n, value));
	}
	return r;
}

/* All values of one instruction use the variables as they were before it. */
static int apply_pairs(struct apply_op *op, char ***list)
{
	AUTO_STRV char **before = op->s->env ? strv_copy(op->s->env) : NULL;
	struct vars_scope scope = { { before, op->s->args, vars_defaults } };
	struct words_vars vars = vars_in(op->d, &scope);
	int r = 0;

	if (op->s->env && !before)
		return error_errno(op->err, ENOMEM, "apply the instruction");
	for (char **a = op->i->args; r == 0 && *a; a++) {
		AUTO_FREE char *name = NULL, *value = NULL, *raw = NULL;
		const char *equals = strchr(*a, '=');

		raw = strndup(*a, (size_t)(equals - *a));
		if (!raw)
			return error_errno(op->err, ENOMEM, "apply the instruction");
		r = words_expand(&vars, raw, &name, op->err);
		if (r == 0)
			r = words_expand(&vars, equals + 1, &value, op->err);
		if (r == 0 && (!name[0] || strchr(name, '=')))
			r = error_set(op->err, EINVAL, "'%.80s' is not a name", raw);
		if (r == 0)
			r = apply_failed(
				op, dockerfile_var_set(list, name, strlen(name), value));
	}
	return r;
}

static int apply_env(struct apply_op *op)
{
	return apply_pairs(op, &op->s->env);
}

static int apply_label(struct apply_op *op)
{
	return apply_pairs(op, &op->s->labels);
}

/* ----------------------------------------------------- CMD, ENTRYPOINT, SHELL */

/* Return the words of a command; the shell form gets the words of the shell first. */
static int apply_argv(struct apply_op *op, char ***ret)
{
	char **list = NULL;
	int r = !op->i->json && op->i->args[0] ? vars_add_shell(op->s, &list) : 0;

	for (char **a = op->i->args; r == 0 && *a; a++)
		r = strv_add(&list, *a);
	if (r == 0 && !list && !(list = calloc(1, sizeof(*list))))
		r = -ENOMEM;
	if (r < 0) {
		(void)strv_free(list);
		return apply_failed(op, r);
	}
	(void)strv_free(*ret);
	*ret = list;
	return 0;
}

static int apply_cmd(struct apply_op *op)
{
	op->s->cmd_is_own = true;
	return apply_argv(op, &op->s->cmd);
}

/* ENTRYPOINT clears a CMD that comes from the base. */
static int apply_entrypoint(struct apply_op *op)
{
	if (!op->s->cmd_is_own)
		op->s->cmd = strv_free(op->s->cmd);
	return apply_argv(op, &op->s->entrypoint);
}

static int apply_shell(struct apply_op *op)
{
	char **shell = strv_copy(op->i->args);

	if (!shell)
		return apply_failed(op, -ENOMEM);
	(void)strv_free(op->s->shell);
	op->s->shell = shell;
	return 0;
}

/* ------------------------------------------------------------ EXPOSE, VOLUME */

static int apply_add_once(struct apply_op *op, char ***list, const char *word)
{
	for (char **w = *list; w && *w; w++)
		if (strcmp(*w, word) == 0)
			return 0;
	if (strv_len((union strv){ *list }) >= STATE_VARS_MAX)
		return apply_failed(op, -E2BIG);
	return apply_failed(op, strv_add(list, word));
}

static int expose_bad(struct apply_op *op, const char *word)
{
	return error_set(op->err, EINVAL,
			 "'%.80s' is not PORT[-PORT][/tcp|/udp|/sctp] (example: 80/tcp)",
			 word);
}

/* "80", "80/udp" or "8000-8010/tcp" */
static int expose_one(struct apply_op *op, const char *word)
{
	static const char *const protocols[] = { "tcp", "udp", "sctp" };
	size_t n = strspn(word, "0123456789"), k = 0;
	unsigned long first = strtoul(word, NULL, 10), last = first;
	const char *p = word + n;
	int r = 0;

	if (*p == '-') {
		last = strtoul(p + 1, NULL, 10);
		p += 1 + strspn(p + 1, "0123456789");
	}
	if (*p == '/')
		while (k < ARRAY_SIZE(protocols) && strcasecmp(p + 1, protocols[k]) != 0)
			k++;
	if (n == 0 || n > 5 || (*p && *p != '/') || k == ARRAY_SIZE(protocols) ||
	    first == 0 || last > 65535 || last < first)
		return expose_bad(op, word);
	for (; r == 0 && first <= last; first++) {
		char text[32];

		(void)snprintf(text, sizeof(text), "%lu/%s", first, protocols[k]);
		r = apply_add_once(op, &op->s->exposed, text);
	}
	return r;
}

static int apply_expose(struct apply_op *op)
{
	int r = 0;

	for (char **a = op->i->args; r == 0 && *a; a++) {
		AUTO_STRV char **words = NULL;
		AUTO_FREE char *text = NULL;

		r = vars_expand(op->d, op->s, *a, &text, op->err);
		if (r == 0)
			r = words_split(text, false, op->d->escape, &words, op->err);
		for (char **w = words; r == 0 && *w; w++)
			r = expose_one(op, *w);
	}
	return r;
}

static int apply_volume(struct apply_op *op)
{
	int r = 0;

	for (char **a = op->i->args; r == 0 && *a; a++) {
		AUTO_FREE char *path = NULL;

		r = vars_expand(op->d, op->s, *a, &path, op->err);
		if (r == 0 && !path[0])
			r = error_set(op->err, EINVAL, "the path of a volume is empty");
		if (r == 0)
			r = apply_add_once(op, &op->s->volumes, path);
	}
	return r;
}

/* ------------------------------------------------------------- single values */

static int apply_user(struct apply_op *op)
{
	return apply_text(op, &op->s->user);
}

static int apply_maintainer(struct apply_op *op)
{
	return apply_text(op, &op->s->maintainer);
}

static int apply_stop_signal(struct apply_op *op)
{
	int r = apply_text(op, &op->s->stop_signal);
	const char *text = op->s->stop_signal;

	if (r == 0 && strspn(text, "0123456789") != strlen(text) &&
	    strncasecmp(text, "SIG", 3) != 0)
		return error_set(op->err, EINVAL,
				 "'%.80s' is not a signal (example: SIGTERM)", text);
	return r;
}

static int apply_workdir(struct apply_op *op)
{
	AUTO_FREE char *path = NULL;
	char *joined;
	int r = apply_word(op, &path);

	if (r < 0)
		return r;
	joined = dockerfile_join(op->s->workdir ? op->s->workdir : "/", path);
	if (!joined)
		return apply_failed(op, -ENOMEM);
	free(op->s->workdir);
	op->s->workdir = joined;
	return 0;
}

/* --------------------------------------------------------------- HEALTHCHECK */

/* Parse a duration in Go's syntax, such as "1m30s" or "1.5s". */
static int health_duration(const char *text, uint64_t *ret)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = { { "ns", 1 },  { "us", 1e3 }, { "ms", 1e6 },
		      { "s", 1e9 }, { "m", 60e9 }, { "h", 3600e9 } };
	double sum = 0;

	if (!*text)
		return -EINVAL;
	while (*text) {
		size_t n = strspn(text, "0123456789."), k = 0, len;
		char *end;
		double value = strtod(text, &end);

		if (n == 0 || n > 18 || end != text + n)
			return -EINVAL;
		len = strspn(end, "abcdefghijklmnopqrstuvwxyz");
		while (k < ARRAY_SIZE(units) && (strlen(units[k].name) != len ||
						 strncmp(units[k].name, end, len) != 0))
			k++;
		if (k == ARRAY_SIZE(units))
			return -EINVAL;
		sum += value * units[k].ns;
		text = end + len;
	}
	if (sum > 9e18)
		return -EINVAL;
	*ret = (uint64_t)sum;
	return 0;
}

static int health_flags(struct apply_op *op, struct dockerfile_health *h)
{
	const struct {
		const char *flag;
		uint64_t *field;
	} durations[] = { { "interval", &h->interval },
			  { "timeout", &h->timeout },
			  { "start-period", &h->start_period },
			  { "start-interval", &h->start_interval } };
	const char *retries = dockerfile_flag(op->i, "retries");

	for (size_t k = 0; k < ARRAY_SIZE(durations); k++) {
		const char *text = dockerfile_flag(op->i, durations[k].flag);

		if (text && health_duration(text, durations[k].field) < 0)
			return error_set(op->err, EINVAL,
					 "--%s: '%.40s' is not a duration (example: 30s)",
					 durations[k].flag, text);
	}
	if (retries && parse_u64(retries, 1000000, &h->retries, op->err) < 0)
		return error_wrap(op->err, "--retries");
	return 0;
}

static int apply_healthcheck(struct apply_op *op)
{
	struct dockerfile_health h = { 0 };
	bool shell = !op->i->json && strcmp(op->i->args[0], "CMD") == 0;
	int r = health_flags(op, &h);

	if (r < 0)
		return r;
	r = strv_add(&h.test, shell ? "CMD-SHELL" : op->i->args[0]);
	for (char **a = op->i->args + 1; r == 0 && *a; a++)
		r = strv_add(&h.test, *a);
	if (r < 0) {
		(void)strv_free(h.test);
		return apply_failed(op, r);
	}
	(void)strv_free(op->s->health.test);
	op->s->health = h;
	return 0;
}

/* -------------------------------------------------------------------- the table */

static int (*const appliers[DOCKERFILE_KIND_MAX])(struct apply_op *op) = {
	[DOCKERFILE_ARG] = apply_arg,
	[DOCKERFILE_CMD] = apply_cmd,
	[DOCKERFILE_ENTRYPOINT] = apply_entrypoint,
	[DOCKERFILE_ENV] = apply_env,
	[DOCKERFILE_EXPOSE] = apply_expose,
	[DOCKERFILE_HEALTHCHECK] = apply_healthcheck,
	[DOCKERFILE_LABEL] = apply_label,
	[DOCKERFILE_MAINTAINER] = apply_maintainer,
	[DOCKERFILE_SHELL] = apply_shell,
	[DOCKERFILE_STOPSIGNAL] = apply_stop_signal,
	[DOCKERFILE_USER] = apply_user,
	[DOCKERFILE_VOLUME] = apply_volume,
	[DOCKERFILE_WORKDIR] = apply_workdir,
};

int dockerfile_apply(const struct dockerfile *d, const struct dockerfile_instruction *i,
		     const struct dockerfile_args *args, struct dockerfile_state *s,
		     struct warren_error *err)
{
	struct apply_op op = { d, i, args, s, err };
	int r = appliers[i->kind] ? appliers[i->kind](&op) : 0;

	return r < 0 ? dockerfile_error(d, i->line, err) : 0;
}

int dockerfile_expand_global(const struct dockerfile *d,
			     const struct dockerfile_args *args, const char *word,
			     char **ret, struct warren_error *err)
{
	struct vars_scope scope = { { args->global, args->platform } };
	struct words_vars vars = vars_in(d, &scope);

	return words_expand(&vars, word, ret, err);
}

int dockerfile_apply_global(const struct dockerfile *d,
			    const struct dockerfile_instruction *i,
			    struct dockerfile_args *args, struct warren_error *err)
{
	int r = 0;

	for (char **a = i->args; r == 0 && *a; a++) {
		struct vars_scope scope = { { args->global, args->platform } };
		struct words_vars vars = vars_in(d, &scope);
		AUTO_FREE char *own = NULL;
		size_t n = strcspn(*a, "=");
		const char *value;

		r = arg_check_name(*a, err);
		if (r == 0)
			r = arg_default(&vars, *a, &own, err);
		if (r < 0)
			break;
		value = dockerfile_var(args->given, *a, n);
		if (!value)
			value = own;
		if (value && dockerfile_var_set(&args->global, *a, n, value) < 0)
			r = error_set(err, E2BIG, "there are too many arguments");
	}
	return r < 0 ? dockerfile_error(d, i->line, err) : 0;
}
