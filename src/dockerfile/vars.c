/* SPDX-License-Identifier: Apache-2.0 */
/* vars.c - lists of variables, and paths */
#include "dockerfile/vars.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/default_path.h"
#include "base/strv.h"

static char **vars_find(char *const *list, const char *name, size_t n)
{
	for (; list && *list; list++)
		if (strncmp(*list, name, n) == 0 && (*list)[n] == '=')
			return (char **)(uintptr_t)list;
	return NULL;
}

const char *dockerfile_var(char *const *list, const char *name, size_t n)
{
	char **found = vars_find(list, name, n);

	return found ? *found + n + 1 : NULL;
}

int dockerfile_var_set(char ***list, const char *name, size_t n, const char *value)
{
	char **found = vars_find(*list, name, n);
	AUTO_FREE char *text = NULL;

	if (asprintf(&text, "%.*s=%s", (int)n, name, value) < 0) {
		text = NULL;
		return -ENOMEM;
	}
	if (strv_bytes((union strv){ *list }) + strlen(text) > STATE_BYTES_MAX ||
	    (!found && strv_len((union strv){ *list }) >= STATE_VARS_MAX))
		return -E2BIG;
	if (!found)
		return strv_add(list, text);
	free(*found);
	*found = TAKE_PTR(text);
	return 0;
}

static char default_path[] = DEFAULT_PATH_ENV;
char *const vars_defaults[] = { default_path, NULL };

static const char *vars_get(void *ctx, const char *name, size_t n)
{
	const struct vars_scope *scope = ctx;

	for (size_t i = 0; i < ARRAY_SIZE(scope->lists); i++) {
		const char *value = dockerfile_var(scope->lists[i], name, n);

		if (value)
			return value;
	}
	return NULL;
}

struct words_vars vars_in(const struct dockerfile *d, struct vars_scope *scope)
{
	return (struct words_vars){ .get = vars_get, .ctx = scope, .escape = d->escape };
}

int vars_expand(const struct dockerfile *d, const struct dockerfile_state *s,
		const char *word, char **ret, struct warren_error *err)
{
	struct vars_scope scope = { { s->env, s->args, vars_defaults } };
	struct words_vars vars = vars_in(d, &scope);

	return words_expand(&vars, word, ret, err);
}

int vars_expand_text(const struct dockerfile *d, const struct dockerfile_state *s,
		     const char *text, char **ret, struct warren_error *err)
{
	struct vars_scope scope = { { s->env, s->args, vars_defaults } };
	struct words_vars vars = vars_in(d, &scope);

	return words_expand_text(&vars, text, ret, err);
}

int vars_add_shell(const struct dockerfile_state *s, char ***list)
{
	static const char *const sh[] = { "/bin/sh", "-c" };
	int r = 0;

	for (size_t k = 0; r == 0 && !s->shell && k < ARRAY_SIZE(sh); k++)
		r = strv_add(list, sh[k]);
	for (char **w = s->shell; r == 0 && w && *w; w++)
		r = strv_add(list, *w);
	return r;
}

/* Append the components of @path to @out, which has room. */
static char *vars_append_path(char *start, char *out, const char *path)
{
	while (*path) {
		size_t n = strcspn(path, "/");

		if (n == 2 && path[0] == '.' && path[1] == '.') {
			while (out > start && *--out != '/')
				;
		} else if (n > 0 && !(n == 1 && path[0] == '.')) {
			*out++ = '/';
			(void)memcpy(out, path, n);
			out += n;
		}
		path += n + (path[n] == '/');
	}
	return out;
}

char *dockerfile_join(const char *base, const char *path)
{
	char *joined = malloc(strlen(base) + strlen(path) + 3), *end = joined;

	if (!joined)
		return NULL;
	if (path[0] != '/')
		end = vars_append_path(joined, end, base);
	end = vars_append_path(joined, end, path);
	if (end == joined)
		*end++ = '/';
	*end = '\0';
	return joined;
}
