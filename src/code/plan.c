/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - check a request to run code, and plan it */
#include "code/plan.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/macro.h"
#include "base/strv.h"
#include "base/utf8.h"

const struct code_limits code_default_limits = {
	.timeout_ms = 30000,
	.memory = UINT64_C(256) << 20,
	.disk = UINT64_C(64) << 20,
	.pids = 50,
};

void code_plan_done(struct code_plan *p)
{
	free(p->files);
	(void)strv_free(p->compile);
	(void)strv_free(p->run);
	(void)strv_free(p->run_alone);
	(void)strv_free(p->env);
	free(p->opened);
	*p = (struct code_plan){ 0 };
}

static int plan_no_memory(struct warren_error *err)
{
	return error_errno(err, ENOMEM, "plan the run");
}

/* ----------------------------------------------------------------- language */

static int plan_language(const struct code_settings *s, const struct code_request *q,
			 struct code_plan *p, struct warren_error *err)
{
	char known[320];

	if (!q->language || !*q->language)
		return error_set(err, EINVAL, "/language: is missing");
	p->language = code_language_find(&s->table, q->language);
	if (!p->language) {
		code_language_list(&s->table, known, sizeof(known));
		return error_set(err, EINVAL,
				 "/language: '%.40s' is not known; use one of %s",
				 q->language, known);
	}
	p->image = q->image;
	for (size_t i = 0; !p->image && i < s->n_images; i++)
		if (strcmp(s->images[i].language, p->language->name) == 0)
			p->image = s->images[i].image;
	if (!p->image)
		p->image = p->language->image ? p->language->image : "host";
	return 0;
}

/* Are the @n bytes at @line a statement that only an ES module may contain? */
static bool plan_is_module_line(const char *line, size_t n)
{
	static const char *const words[] = { "import", "export" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		size_t len = strlen(words[i]);

		if (n > len && memcmp(line, words[i], len) == 0 &&
		    strchr(" \t{*'\"", line[len]))
			return true;
	}
	/* A line without indentation is usually outside of functions. */
	return line && n > 6 && line[0] != ' ' && line[0] != '\t' && line[0] != '}' &&
	       line[0] != '/' && !memmem(line, n, "async", 5) &&
	       memmem(line, n, "await ", 6);
}

static bool plan_is_module(const char *code, size_t size)
{
	const char *end = code + size;

	if (memmem(code, size, "require(", 8))
		return false;
	while (code < end) {
		const char *eol = memchr(code, '\n', (size_t)(end - code));
		size_t n = (size_t)((eol ? eol : end) - code);

		if (plan_is_module_line(code, n))
			return true;
		code += n + 1;
	}
	return false;
}

/* ------------------------------------------------------------------- steps */

static int plan_add_step(char ***to, const char *const *step, const char *file,
			 struct warren_error *err)
{
	for (; *step; step++) {
		const char *hole = strstr(*step, "{file}");
		AUTO_FREE char *word = NULL;

		if (hole && asprintf(&word, "%.*s%s%s", (int)(hole - *step), *step, file,
				     hole + strlen("{file}")) < 0)
			word = NULL;
		if ((hole && !word) || strv_add(to, hole ? word : *step) < 0)
			return plan_no_memory(err);
	}
	return 0;
}

static int plan_args(const struct code_request *q, struct code_plan *p,
		     struct warren_error *err)
{
	if (strv_len(q->args) > CODE_ARGS_MAX)
		return error_set(err, EINVAL, "/args: there are more than %d",
				 CODE_ARGS_MAX);
	if (strv_bytes(q->args) + strv_bytes(q->env) > CODE_ARGS_BYTES)
		return error_set(err, EINVAL,
				 "/args: together with /env, they have more than %" PRIu64
				 " bytes",
				 CODE_ARGS_BYTES);
	for (size_t i = 0; q->env && q->env[i]; i++) {
		p->own_path = p->own_path || strncmp(q->env[i], "PATH=", 5) == 0;
		if (!strchr(q->env[i], '=') || q->env[i][0] == '=')
			return error_set(err, EINVAL, "/env: '%.80s' is not NAME=value",
					 q->env[i]);
	}
	return 0;
}

static int plan_add_all(char ***to, const char *const *words, struct warren_error *err)
{
	for (; words && *words; words++)
		if (strv_add(to, *words) < 0)
			return plan_no_memory(err);
	return 0;
}

static int plan_steps(const struct code_request *q, struct code_plan *p,
		      struct warren_error *err)
{
	const struct code_language *l = p->language;
	const char *file = p->files[0].name;
	int r = plan_args(q, p, err);

	if (r == 0 && l->compile)
		r = plan_add_step(&p->compile, l->compile, file, err);
	if (r == 0)
		r = plan_add_step(&p->run, l->run, file, err);
	if (r == 0)
		r = plan_add_all(&p->run, q->args, err);
	if (r == 0 && l->run_alone)
		r = plan_add_step(&p->run_alone, l->run_alone, file, err);
	if (r == 0 && l->run_alone)
		r = plan_add_all(&p->run_alone, q->args, err);
	if (r == 0 && strv_add(&p->env, "HOME=" CODE_DIR) < 0)
		r = plan_no_memory(err);
	if (r == 0)
		r = plan_add_all(&p->env, l->env, err);
	return r < 0 ? r : plan_add_all(&p->env, q->env, err);
}

/* ------------------------------------------------------------------- files */

/* Return why @name cannot be the name of a file; NULL: it can. */
static const char *plan_bad_name(const char *name)
{
	size_t depth = 0;

	if (!*name)
		return "is empty";
	if (strlen(name) > 1024)
		return "has more than 1024 bytes";
	if (*name == '/')
		return "is absolute; names are relative to " CODE_DIR;
	if (!utf8_valid(name, strlen(name)))
		return "is not UTF-8";
	for (const char *at = name;; depth++) {
		size_t n = strcspn(at, "/");

		if (n == 0)
			return "has an empty part";
		if (n > 255)
			return "has a part of more than 255 bytes";
		if ((n == 1 && at[0] == '.') || (n == 2 && at[0] == '.' && at[1] == '.'))
			return "has a part '.' or '..'";
		if (!at[n])
			break;
		at += n + 1;
	}
	return depth >= CODE_DEPTH_MAX ? "is too deep" : NULL;
}

/* Are the names equal, or is one of them a directory in the path of the other? */
static bool plan_names_collide(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);

	if (n > m)
		return plan_names_collide(b, a);
	return strncmp(a, b, n) == 0 && (!b[n] || b[n] == '/');
}

/* Is one of @words, or the text after its "=", @name or a directory of it? */
static bool plan_words_name(const char *const *words, const char *name)
{
	for (size_t i = 0; words && words[i]; i++) {
		const char *equals = strchr(words[i], '=');
		const char *path = equals ? equals + 1 : words[i];
		size_t n = strlen(CODE_DIR "/");

		if (strncmp(path, CODE_DIR "/", n) == 0)
			path += n;
		n = strlen(path);
		if (strncmp(path, ".program", 8) == 0 && strncmp(name, path, n) == 0 &&
		    (!name[n] || name[n] == '/'))
			return true;
	}
	return false;
}

/*
 * Does the compiler write this file, because its command or its variables contain the
 * name?
 */
static bool plan_is_made(const struct code_plan *p, const char *name)
{
	return p->language->compile && (plan_words_name(p->language->compile, name) ||
					plan_words_name(p->language->env, name));
}

static int plan_check_file(const struct code_plan *p, size_t i, struct warren_error *err)
{
	const char *name = p->files[i].name,
		   *why = name ? plan_bad_name(name) : "is missing";

	if (why)
		return error_set(err, EINVAL, "/files: the name '%.200s' %s",
				 name ? name : "", why);
	if (plan_names_collide(p->files[0].name, name))
		return error_set(err, EINVAL,
				 "/files: '%.200s' is the name of the program's own file",
				 name);
	if (plan_is_made(p, name))
		return error_set(
			err, EINVAL,
			"/files: '%.200s' is reserved for the compiled program; choose another name",
			name);
	for (size_t k = 1; k < i; k++)
		if (plan_names_collide(p->files[k].name, name))
			return error_set(
				err, EINVAL,
				"/files: '%.100s' and '%.100s' cannot both exist",
				p->files[k].name, name);
	return 0;
}

/* Write the program as it is stored in the file; some languages need an opening line. */
static int plan_program(const struct code_request *q, struct code_plan *p,
			struct warren_error *err)
{
	const struct code_language *l = p->language;
	size_t n = l->opening ? strlen(l->opening) : 0;

	if (!q->code)
		return error_set(err, EINVAL, "/code: is missing");
	if (q->code_size > CODE_BYTES_MAX)
		return error_set(err, EINVAL, "/code: has more than %" PRIu64 " bytes",
				 CODE_BYTES_MAX);
	p->files[0] = (struct code_file){ l->file, q->code, q->code_size };
	if (l->module_file && plan_is_module(q->code, q->code_size))
		p->files[0].name = l->module_file;
	/* The opening line is "<?php ": search for it without the space. */
	if (n == 0 || memmem(q->code, q->code_size, l->opening, n - 1))
		return 0;
	p->opened = malloc(n + q->code_size + 1);
	if (!p->opened)
		return plan_no_memory(err);
	(void)memcpy(p->opened, l->opening, n);
	(void)memcpy(p->opened + n, q->code, q->code_size);
	p->files[0].data = p->opened;
	p->files[0].size = n + q->code_size;
	return 0;
}

static int plan_files(const struct code_request *q, struct code_plan *p,
		      struct warren_error *err)
{
	uint64_t bytes = q->input_size;
	int r;

	if (q->n_files > CODE_FILES_MAX)
		return error_set(err, EINVAL, "/files: there are more than %d",
				 CODE_FILES_MAX);
	p->files = calloc(q->n_files + 1, sizeof(*p->files));
	if (!p->files)
		return plan_no_memory(err);
	r = plan_program(q, p, err);
	p->n_files = 1;
	for (size_t i = 0; r == 0 && i < q->n_files; i++) {
		p->files[p->n_files++] = q->files[i];
		bytes += q->files[i].size;
		r = plan_check_file(p, i + 1, err);
	}
	if (r == 0 && bytes > CODE_FILES_BYTES)
		r = error_set(err, EINVAL,
			      "/files: together with /stdin, they have more than %" PRIu64
			      " bytes",
			      CODE_FILES_BYTES);
	p->input = q->input;
	p->input_size = q->input_size;
	return r;
}

static int plan_artifacts(const struct code_request *q, struct code_plan *p,
			  struct warren_error *err)
{
	size_t n = strv_len(q->artifacts);

	if (n > CODE_GLOBS_MAX)
		return error_set(err, EINVAL, "/artifacts: there are more than %d",
				 CODE_GLOBS_MAX);
	if (strv_bytes(q->artifacts) > CODE_GLOB_LEN)
		return error_set(
			err, EINVAL,
			"/artifacts: the patterns have more than %d bytes in total",
			CODE_GLOB_LEN);
	for (size_t i = 0; i < n; i++) {
		const char *glob = q->artifacts[i];
		size_t len = strlen(glob);

		if (len == 0 || glob[0] == '/' || !utf8_valid(glob, len))
			return error_set(
				err, EINVAL,
				"/artifacts/%zu: must be a path relative to " CODE_DIR
				", such as 'out/*.png'",
				i);
		if (glob[len - 1] == '/')
			return error_set(err, EINVAL,
					 "/artifacts/%zu: write '%.80s**' for all files "
					 "of a directory",
					 i, glob);
	}
	p->artifacts = n > 0 ? q->artifacts : NULL;
	return 0;
}

int code_plan_wants(const struct code_plan *p, const char *name)
{
	unsigned steps = CODE_GLOB_STEPS;
	int r = 0;

	if (strcmp(name, p->files[0].name) == 0 || plan_is_made(p, name))
		return 0;
	for (size_t i = 0; r == 0 && p->artifacts[i]; i++)
		r = code_glob_match(p->artifacts[i], name, &steps);
	return r;
}

/* ------------------------------------------------------------------ limits */

struct plan_bound {
	const char *field;
	uint64_t asked, normal, least, most; /* most: 0 means no maximum */
};

/* Return the requested value, or the default within the maximum. */
static int plan_bound(const struct plan_bound *b, uint64_t *ret, struct warren_error *err)
{
	uint64_t value = b->asked ? b->asked : b->normal;

	if (b->asked && b->asked < b->least)
		return error_set(err, EINVAL,
				 "%s: %" PRIu64 " is less than the minimum, %" PRIu64,
				 b->field, b->asked, b->least);
	if (b->most && b->asked > b->most)
		return error_set(err, EPERM,
				 "%s: %" PRIu64 " is more than the %" PRIu64
				 " that the service allows",
				 b->field, b->asked, b->most);
	if (b->most && value > b->most)
		value = b->most;
	*ret = value;
	return 0;
}

static uint64_t plan_most(uint64_t configured, uint64_t ours)
{
	return configured && configured < ours ? configured : ours;
}

/*
 * Files in memory count as memory. So if there is less memory, reduce the space for
 * files, unless the request sets it.
 */
static void plan_fit_disk(const struct code_request *q, struct code_plan *p)
{
	uint64_t half = p->limits.memory / 2;

	if (!q->limits.disk && p->limits.disk > half)
		p->limits.disk = half;
	p->tmp = CODE_TMP_BYTES < half / 2 ? CODE_TMP_BYTES : half / 2;
}

static int plan_limits(const struct code_settings *s, const struct code_request *q,
		       struct code_plan *p, struct warren_error *err)
{
	const struct code_limits *d = &s->defaults, *m = &s->max, *a = &q->limits;
	const struct code_limits *ours = &code_default_limits;
	const struct plan_bound bounds[] = {
		{ "/timeout_ms", a->timeout_ms,
		  d->timeout_ms ? d->timeout_ms : ours->timeout_ms, 1,
		  plan_most(m->timeout_ms, CODE_TIMEOUT_MAX) },
		{ "/limits/memory", a->memory, d->memory ? d->memory : ours->memory,
		  CODE_MEMORY_MIN, m->memory },
		{ "/limits/disk", a->disk, d->disk ? d->disk : ours->disk, CODE_DISK_MIN,
		  m->disk },
		{ "/limits/pids", a->pids, d->pids ? d->pids : ours->pids, 1, m->pids },
		{ "/max_output", q->max_output, CODE_OUTPUT_DEFAULT, 1, CODE_OUTPUT_MAX },
	};
	uint64_t *const to[] = { &p->limits.timeout_ms, &p->limits.memory,
				 &p->limits.disk, &p->limits.pids, &p->max_output };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(bounds); i++)
		r = plan_bound(&bounds[i], to[i], err);
	if (r == 0)
		plan_fit_disk(q, p);
	if (r == 0 && p->limits.disk + p->tmp >= p->limits.memory)
		r = error_set(err, EINVAL,
			      "/limits/disk: %" PRIu64
			      " does not fit into the memory, %" PRIu64
			      ": files are in memory",
			      p->limits.disk, p->limits.memory);
	return r;
}

int code_plan_make(const struct code_settings *settings,
		   const struct code_request *request, struct code_plan *ret,
		   struct warren_error *err)
{
	AUTO_CODE_PLAN struct code_plan p = { 0 };
	int r = plan_language(settings, request, &p, err);

	if (r == 0)
		r = plan_files(request, &p, err);
	if (r == 0)
		r = plan_steps(request, &p, err);
	if (r == 0)
		r = plan_artifacts(request, &p, err);
	if (r == 0)
		r = plan_limits(settings, request, &p, err);
	if (r < 0)
		return r;
	*ret = p;
	p = (struct code_plan){ 0 };
	return 0;
}

int code_plan_missing(const struct code_plan *p, const char *tools,
		      struct warren_error *err)
{
	const char *package = p->language->package;
	char list[160] = "", one[128];

	for (size_t i = 0; code_step_tool(tools, i, one, sizeof(one)); i++) {
		size_t n = strlen(list);

		(void)snprintf(list + n, sizeof(list) - n, "%s'%.60s'",
			       i > 0 ? " or " : "", one);
	}
	if (p->own_path)
		return error_set(err, ENOENT,
				 "/env: %s needs %s, which is not in the PATH that the "
				 "request sets",
				 p->language->name, list);
	return error_set(
		err, ENOENT,
		"/language: %s needs %s, which the image '%.120s' does not have%s%s",
		p->language->name, list, p->image, package ? "; on Debian, install " : "",
		package ? package : "");
}
