/* SPDX-License-Identifier: Apache-2.0 */
/* run.c - parse RUN instructions */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/parse.h"
#include "base/strv.h"
#include "dockerfile/vars.h"

struct run_op {
	const struct dockerfile *d;
	const struct dockerfile_instruction *i;
	const struct dockerfile_state *s;
	struct dockerfile_run *ret;
	struct warren_error *err;
};

static const char *const run_types[] = {
	[DOCKERFILE_MOUNT_BIND] = "bind",
	[DOCKERFILE_MOUNT_CACHE] = "cache",
	[DOCKERFILE_MOUNT_TMPFS] = "tmpfs",
	[DOCKERFILE_MOUNT_SECRET] = "secret",
};

/*
 * Arguments that need no ARG instruction and are not part of the cache key, as in docker.
 */
static const char *const run_proxies[] = { "HTTP_PROXY",  "http_proxy", "HTTPS_PROXY",
					   "https_proxy", "FTP_PROXY",  "ftp_proxy",
					   "NO_PROXY",    "no_proxy",   "ALL_PROXY",
					   "all_proxy" };

bool dockerfile_is_proxy(const char *name, size_t n)
{
	for (size_t k = 0; k < ARRAY_SIZE(run_proxies); k++)
		if (strlen(run_proxies[k]) == n && strncmp(run_proxies[k], name, n) == 0)
			return true;
	return false;
}

static void run_mount_done(struct dockerfile_mount *m)
{
	free(m->target);
	free(m->source);
	free(m->from);
	free(m->id);
	free(m->variable);
}

void dockerfile_run_done(struct dockerfile_run *r)
{
	for (size_t k = 0; k < r->n_mounts; k++)
		run_mount_done(&r->mounts[k]);
	free(r->mounts);
	free(r->script);
	(void)strv_free(r->argv);
	(void)strv_free(r->env);
	(void)strv_free(r->proxy);
	*r = (struct dockerfile_run){ 0 };
}

/* ------------------------------------------------------------------ mounts */

/* The keys of --mount; each type accepts some of them. */
enum {
	OF_BIND = 1 << DOCKERFILE_MOUNT_BIND,
	OF_CACHE = 1 << DOCKERFILE_MOUNT_CACHE,
	OF_TMPFS = 1 << DOCKERFILE_MOUNT_TMPFS,
	OF_SECRET = 1 << DOCKERFILE_MOUNT_SECRET,
	OF_ALL = OF_BIND | OF_CACHE | OF_TMPFS | OF_SECRET,
};

#define MOUNT_FIELD(name) offsetof(struct dockerfile_mount, name)

static const struct mount_key {
	const char *name;
	enum {
		KEY_TEXT,
		KEY_TRUE,
		KEY_FALSE,
		KEY_SIZE,
		KEY_TYPE
	} kind;
	unsigned types;
	size_t field;
} mount_keys[] = {
	{ "type", KEY_TYPE, OF_ALL, 0 },
	{ "target", KEY_TEXT, OF_ALL, MOUNT_FIELD(target) },
	{ "dst", KEY_TEXT, OF_ALL, MOUNT_FIELD(target) },
	{ "destination", KEY_TEXT, OF_ALL, MOUNT_FIELD(target) },
	{ "source", KEY_TEXT, OF_BIND, MOUNT_FIELD(source) },
	{ "src", KEY_TEXT, OF_BIND, MOUNT_FIELD(source) },
	{ "from", KEY_TEXT, OF_BIND, MOUNT_FIELD(from) },
	{ "id", KEY_TEXT, OF_CACHE | OF_SECRET, MOUNT_FIELD(id) },
	{ "env", KEY_TEXT, OF_SECRET, MOUNT_FIELD(variable) },
	{ "size", KEY_SIZE, OF_TMPFS, MOUNT_FIELD(size) },
	{ "rw", KEY_FALSE, OF_BIND | OF_CACHE, MOUNT_FIELD(read_only) },
	{ "readwrite", KEY_FALSE, OF_BIND | OF_CACHE, MOUNT_FIELD(read_only) },
	{ "ro", KEY_TRUE, OF_BIND | OF_CACHE, MOUNT_FIELD(read_only) },
	{ "readonly", KEY_TRUE, OF_BIND | OF_CACHE, MOUNT_FIELD(read_only) },
	{ "required", KEY_TRUE, OF_SECRET, MOUNT_FIELD(required) },
};

static int mount_type(const char *value, enum dockerfile_mount_type *ret,
		      struct warren_error *err)
{
	for (size_t k = 0; k < ARRAY_SIZE(run_types); k++)
		if (strcmp(value, run_types[k]) == 0) {
			*ret = (enum dockerfile_mount_type)k;
			return 0;
		}
	return error_set(err, ENOTSUP,
			 "--mount: the type '%.40s' is not supported; use bind, cache, "
			 "tmpfs or secret",
			 value);
}

static int mount_set_bool(bool *field, const char *value, bool as, const char *name,
			  struct warren_error *err)
{
	bool yes = !value || strcasecmp(value, "true") == 0;

	if (!yes && strcasecmp(value, "false") != 0)
		return error_set(err, EINVAL, "--mount: %s is true or false", name);
	*field = yes == as;
	return 0;
}

/*
 * Apply one "name=value" or "name" of a mount, in which variables are already expanded.
 */
static int mount_set(struct dockerfile_mount *m, char *text, struct warren_error *err)
{
	char *value = strchr(text, '=');
	const struct mount_key *key = mount_keys;
	void *field;

	if (value)
		*value++ = '\0';
	while (key < mount_keys + ARRAY_SIZE(mount_keys) &&
	       strcasecmp(key->name, text) != 0)
		key++;
	if (key == mount_keys + ARRAY_SIZE(mount_keys) || !(key->types & (1U << m->type)))
		return error_set(err, ENOTSUP,
				 "--mount=type=%s: '%.40s' is not supported",
				 run_types[m->type], text);
	field = (char *)m + key->field;
	if (key->kind == KEY_TRUE || key->kind == KEY_FALSE)
		return mount_set_bool(field, value, key->kind == KEY_TRUE, text, err);
	if (!value || !*value)
		return error_set(err, EINVAL, "--mount: '%.40s' needs a value", text);
	if (key->kind == KEY_TYPE)
		return 0; /* it was parsed before the others */
	if (key->kind == KEY_SIZE)
		return parse_size(value, field, err);
	free(*(char **)field);
	*(char **)field = strdup(value);
	return *(char **)field ? 0 : error_errno(err, ENOMEM, "parse --mount");
}

/* Set default paths, and make relative paths absolute, starting from WORKDIR. */
static int mount_finish(struct run_op *op, struct dockerfile_mount *m)
{
	const char *id = m->id;
	char *target = NULL;

	if (m->type == DOCKERFILE_MOUNT_SECRET && !m->target && !m->variable) {
		if (!id)
			return error_set(op->err, EINVAL,
					 "--mount: a secret needs an id");
		if (asprintf(&target, "/run/secrets/%s", id) < 0)
			target = NULL;
	} else if (m->target) {
		target =
			dockerfile_join(op->s->workdir ? op->s->workdir : "/", m->target);
	} else if (m->type != DOCKERFILE_MOUNT_SECRET) {
		return error_set(op->err, EINVAL, "--mount needs a target");
	}
	if (!m->id && (m->target || target))
		m->id = strdup(target ? target : m->target);
	if (!target && m->target)
		return error_errno(op->err, ENOMEM, "parse --mount");
	free(m->target);
	m->target = target;
	if (target && strcmp(target, "/") == 0)
		return error_set(op->err, EINVAL, "--mount: the target is '/'");
	if (!m->source)
		m->source = strdup("/");
	return m->source ? 0 : error_errno(op->err, ENOMEM, "parse --mount");
}

static int mount_parse(struct run_op *op, const char *flag, struct dockerfile_mount *m)
{
	AUTO_FREE char *text = NULL;
	char *save = NULL;
	const char *type;
	int r = vars_expand(op->d, op->s, flag, &text, op->err);

	if (r < 0)
		return r;
	type = strncmp(text, "type=", 5) == 0 ? text : strstr(text, ",type=");
	if (type) {
		char name[16] = "";

		type = strchr(type, '=') + 1;
		(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(type, ","), type);
		r = mount_type(name, &m->type, op->err);
	}
	m->read_only = m->type == DOCKERFILE_MOUNT_BIND;
	for (char *part = strtok_r(text, ",", &save); r == 0 && part;
	     part = strtok_r(NULL, ",", &save))
		r = mount_set(m, part, op->err);
	return r < 0 ? r : mount_finish(op, m);
}

static int docker_run_mounts(struct run_op *op)
{
	size_t n = 0;
	int r = 0;

	for (char **f = op->i->flags; f && *f; f++)
		n += strncmp(*f, "mount=", 6) == 0;
	if (n > STATE_MOUNTS_MAX)
		return error_set(op->err, E2BIG, "it has more than %d mounts",
				 STATE_MOUNTS_MAX);
	op->ret->mounts = calloc(n + 1, sizeof(*op->ret->mounts));
	if (!op->ret->mounts)
		return error_errno(op->err, ENOMEM, "parse --mount");
	for (char **f = op->i->flags; r == 0 && f && *f; f++)
		if (strncmp(*f, "mount=", 6) == 0)
			r = mount_parse(op, *f + 6,
					&op->ret->mounts[op->ret->n_mounts++]);
	return r;
}

/* ------------------------------------------------------------------ command */

static int docker_run_flags(struct run_op *op)
{
	const char *network = dockerfile_flag(op->i, "network");
	const char *security = dockerfile_flag(op->i, "security");

	if (dockerfile_flag(op->i, "device"))
		return error_set(op->err, ENOTSUP,
				 "--device is not supported: a build has no devices");
	if (security && strcmp(security, "sandbox") != 0)
		return error_set(op->err, ENOTSUP,
				 "--security=%.40s is not supported: every RUN is in a "
				 "sandbox",
				 security);
	if (network && strcmp(network, "none") != 0 && strcmp(network, "default") != 0)
		return error_set(op->err, ENOTSUP,
				 "--network=%.40s is not supported; use none or default, "
				 "and the options --network and --allow of the build",
				 network);
	op->ret->no_network = network && strcmp(network, "none") == 0;
	return docker_run_mounts(op);
}

/* The command is the words of the shell, followed by the text. */
static int docker_run_shell(struct run_op *op, const char *text)
{
	int r = vars_add_shell(op->s, &op->ret->argv);

	if (r == 0)
		r = strv_add(&op->ret->argv, text);
	return r < 0 ? error_errno(op->err, -r, "parse the command") : 0;
}

/* "#!/usr/bin/env python3": the interpreter gets the path of the script. */
static int docker_run_script(struct run_op *op, const char *data)
{
	AUTO_FREE char *line = strndup(data + 2, strcspn(data + 2, "\n"));
	char *arg, *end;
	int r;

	if (!line)
		return error_errno(op->err, ENOMEM, "parse the command");
	end = line + strlen(line);
	while (end > line && words_blank(end[-1]))
		*--end = '\0';
	arg = line + strspn(line, " \t");
	if (!*arg)
		return error_set(op->err, EINVAL, "the heredoc has no program after #!");
	end = arg + strcspn(arg, " \t");
	if (*end)
		*end++ = '\0';
	end += strspn(end, " \t");
	r = strv_add(&op->ret->argv, arg);
	if (r == 0 && *end)
		r = strv_add(&op->ret->argv, end);
	if (r == 0)
		r = strv_add(&op->ret->argv, DOCKERFILE_SCRIPT_PATH);
	op->ret->script = strdup(data);
	return r < 0 || !op->ret->script
		       ? error_errno(op->err, ENOMEM, "parse the command")
		       : 0;
}

/* Put the heredocs back after the command, because the shell reads them. */
static int run_with_heredocs(struct run_op *op)
{
	const struct dockerfile_instruction *i = op->i;
	AUTO_BUF struct buf text = BUF_INIT(2UL * DOCKERFILE_SIZE_MAX);

	if (strcmp(i->args[0], i->heredocs[0].word) == 0)
		return strncmp(i->heredocs[0].data, "#!", 2) == 0
			       ? docker_run_script(op, i->heredocs[0].data)
			       : docker_run_shell(op, i->heredocs[0].data);
	buf_puts(&text, i->args[0]);
	for (size_t k = 0; k < i->n_heredocs; k++) {
		buf_puts(&text, "\n");
		buf_puts(&text, i->heredocs[k].data);
		buf_puts(&text, i->heredocs[k].name);
	}
	if (text.failed)
		return error_errno(op->err, ENOMEM, "parse the command");
	return docker_run_shell(op, text.data);
}

static int docker_run_command(struct run_op *op)
{
	if (op->i->n_heredocs > 0)
		return run_with_heredocs(op);
	if (!op->i->json)
		return docker_run_shell(op, op->i->args[0]);
	if (!op->i->args[0])
		return error_set(op->err, EINVAL, "the command is empty");
	op->ret->argv = strv_copy(op->i->args);
	return op->ret->argv ? 0 : error_errno(op->err, ENOMEM, "parse the command");
}

/* Arguments become variables, unless ENV has set them. */
static int docker_run_env(struct run_op *op, const struct dockerfile_args *args)
{
	int r = 0;

	for (char **a = op->s->args; r == 0 && a && *a; a++)
		if (!dockerfile_var(op->s->env, *a, strcspn(*a, "=")))
			r = strv_add(&op->ret->env, *a);
	for (size_t k = 0; r == 0 && k < ARRAY_SIZE(run_proxies); k++) {
		size_t n = strlen(run_proxies[k]);
		const char *value = dockerfile_var(args->given, run_proxies[k], n);

		if (value && !dockerfile_var(op->s->env, run_proxies[k], n) &&
		    !dockerfile_var(op->s->args, run_proxies[k], n))
			r = dockerfile_var_set(&op->ret->proxy, run_proxies[k], n, value);
	}
	return r < 0 ? error_errno(op->err, -r, "set the command's variables") : 0;
}

int dockerfile_run_parse(const struct dockerfile *d,
			 const struct dockerfile_instruction *i,
			 const struct dockerfile_args *args,
			 const struct dockerfile_state *s, struct dockerfile_run *ret,
			 struct warren_error *err)
{
	struct dockerfile_run run = { 0 };
	struct run_op op = { d, i, s, &run, err };
	int r = docker_run_flags(&op);

	if (r == 0)
		r = docker_run_command(&op);
	if (r == 0)
		r = docker_run_env(&op, args);
	if (r < 0) {
		dockerfile_run_done(&run);
		return dockerfile_error(d, i->line, err);
	}
	*ret = run;
	return 0;
}
