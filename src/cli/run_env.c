/* SPDX-License-Identifier: Apache-2.0 */
/* run_env.c - variables from --env and --env-file */
#include "cli/run_env.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/macro.h"

#define FILE_MAX     (1U << 20)
#define NAME_LEN_MAX 256 /* maximum that the library accepts */

static const char blanks[] = " \t\v\f\r";

static char **run_env_find(const struct env_list *env, const char *name, size_t len)
{
	for (size_t i = 0; i < env->n; i++)
		if (strncmp(env->v[i], name, len) == 0 && env->v[i][len] == '=')
			return &env->v[i];
	return NULL;
}

/*
 * Return the place for the next variable, with space for the NULL after it; NULL: out of
 * memory.
 */
static char **run_env_find_room(struct env_list *env)
{
	size_t cap = env->cap ? env->cap * 2 : 16;
	char **v = env->v;

	if (env->n + 1 >= env->cap) {
		v = realloc(env->v, cap * sizeof(*v));
		if (!v)
			return NULL;
		env->v = v;
		env->cap = cap;
	}
	v[env->n] = v[env->n + 1] = NULL;
	return &v[env->n];
}

/* If a variable is set twice, the last value counts. */
static int env_list_set(struct env_list *env, const char *name, size_t len,
			const char *value, struct warren_error *err)
{
	char **same = run_env_find(env, name, len);
	char **slot = same ? same : run_env_find_room(env);
	char *text = NULL;

	if (!slot || asprintf(&text, "%.*s=%s", (int)len, name, value) < 0)
		return error_errno(err, ENOMEM, "store a variable");
	free(*slot);
	*slot = text;
	env->n += !same;
	return 0;
}

int env_list_add(struct env_list *env, const char *text, struct warren_error *err)
{
	size_t len = strcspn(text, "=");
	const char *value = text[len] ? text + len + 1 : getenv(text);

	if (len == 0)
		return error_set(err, EINVAL, "'%s' has no name before the '='", text);
	if (strcspn(text, " \t\v\f\r\n") < len)
		return error_set(err, EINVAL, "the name '%.*s' contains a space",
				 (int)len, text);
	if (len > NAME_LEN_MAX)
		return error_set(err, EINVAL,
				 "the name '%.32s...' is longer than %d letters", text,
				 NAME_LEN_MAX);
	return value ? env_list_set(env, text, len, value, err) : 0;
}

/* Read the lines of @text, which is changed. */
static int run_env_add_lines(struct env_list *env, char *text, size_t n, const char *path,
			     struct warren_error *err)
{
	const char *end = text + n;
	unsigned number = 1;

	for (char *line = text; line < end; number++) {
		char *newline = memchr(line, '\n', (size_t)(end - line));
		char *next = newline ? newline + 1 : text + n;
		char *stop = newline ? newline : text + n;
		int r;

		if (memchr(line, '\0', (size_t)(stop - line)))
			return error_set(err, EINVAL, "%s, line %u: contains a NUL byte",
					 path, number);
		if (stop > line && stop[-1] == '\r') /* the file has Windows line ends */
			stop--;
		*stop = '\0';
		line += strspn(line, blanks);
		if (*line && *line != '#') {
			r = env_list_add(env, line, err);
			if (r < 0)
				return error_wrap(err, "%s, line %u", path, number);
		}
		line = next;
	}
	return 0;
}

int env_list_add_file(struct env_list *env, const char *path, struct warren_error *err)
{
	AUTO_FREE char *text = malloc(FILE_MAX + 1);
	/* Opening may block, because a shell's <(...) is a pipe. */
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return error_errno(err, errno, "'%s'", path);
	if (!text)
		return error_errno(err, ENOMEM, "read '%s'", path);
	n = fd_read_all(fd, text, FILE_MAX + 1);
	if (n < 0)
		return error_errno(err, (int)-n, "'%s'", path);
	if (n > FILE_MAX)
		return error_set(err, EFBIG, "'%s' is larger than 1 MiB", path);
	if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) /* skip a byte order mark */
		return run_env_add_lines(env, text + 3, (size_t)n - 3, path, err);
	return run_env_add_lines(env, text, (size_t)n, path, err);
}

int env_list_add_all(struct env_list *env, const struct env_list *from,
		     struct warren_error *err)
{
	for (size_t i = 0; i < from->n; i++) {
		int r = env_list_add(env, from->v[i], err);

		if (r < 0)
			return r;
	}
	return 0;
}

void env_list_done(struct env_list *env)
{
	for (size_t i = 0; i < env->n; i++)
		free(env->v[i]);
	free(env->v);
	*env = (struct env_list){ 0 };
}
