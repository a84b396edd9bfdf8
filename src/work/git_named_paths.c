/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git_named_paths.c - note a path and all links that lead to it
 *
 * Paths are compared in lower case, because a file system may not tell the cases apart.
 */
#include <ctype.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/macro.h"
#include "work/git_named_internal.h"
#include "work/git_run.h"

#define NAMED_MAX       524288 /* paths */
#define NAMED_LINKS_MAX 40     /* in a path, as in the kernel */

/* Find the home directory that "~name/" means to git and the shell; or NULL. */
static const char *named_home(const char *path)
{
	char *name = strndup(path + 1, strcspn(path + 1, "/"));
	const struct passwd *user = name ? getpwnam(name) : NULL;

	free(name);
	return user ? user->pw_dir : NULL;
}

bool named_join(const struct named_search *s, const char *base, const char *path,
		char ret[PATH_MAX])
{
	static const char optional[] = ":(optional)", prefix[] = "%(prefix)/";
	const char *home = NULL;
	int n;

	if (strncmp(path, optional, strlen(optional)) == 0)
		path += strlen(optional);
	if (path[0] == '~')
		home = path[1] == '/' || !path[1] ? s->home : named_home(path);
	if (strncmp(path, prefix, strlen(prefix)) == 0)
		n = snprintf(ret, PATH_MAX, "%s/%s",
			     strncmp(git_program(), "/usr/local/", 11) == 0 ? "/usr/local"
									    : "/usr",
			     path + strlen(prefix));
	else if (home)
		n = snprintf(ret, PATH_MAX, "%s%s", home,
			     path + 1 + strcspn(path + 1, "/"));
	else if (path[0] == '/')
		n = snprintf(ret, PATH_MAX, "%s", path);
	else
		n = snprintf(ret, PATH_MAX, "%s/%s", base, path);
	return n > 0 && n < PATH_MAX;
}

/* Remember an absolute path that has no "." and "..", if it is in the project. */
static void named_note(struct named_search *s, const char *absolute)
{
	size_t n = strlen(s->project);
	char *copy;

	if (strncmp(absolute, s->project, n) != 0 ||
	    (absolute[n] && absolute[n] != '/') ||
	    (!s->only && (!absolute[n] || !absolute[n + 1])))
		return;
	n += absolute[n] == '/';
	if (s->out->n >= NAMED_MAX) {
		s->out->unclear = true;
		return;
	}
	if (s->out->n == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 64;
		char **more = reallocarray(s->out->paths, cap, sizeof(*more));

		if (!more) {
			s->failed = true;
			return;
		}
		s->out->paths = more;
		s->cap = cap;
	}
	if (asprintf(&copy, "%s%s", absolute + n, s->only ? s->only : "") < 0) {
		s->failed = true;
		return;
	}
	for (char *c = copy; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	s->out->paths[s->out->n++] = copy;
}

static void named_pop(char *path, size_t *n)
{
	while (*n > 0 && path[--*n] != '/')
		;
	path[*n] = '\0';
}

/* In "DIR/..", a link in the place of DIR would lead elsewhere. */
static void named_note_parent_of(struct named_search *s, const char *dir)
{
	const char *only = s->only;

	s->only = NAMED_ITSELF;
	named_note(s, dir);
	s->only = only;
}

/* Note @done with @rest after it, whose ".." are not resolved with links. */
static void named_note_rest(struct named_search *s, const char *done, const char *rest)
{
	char path[PATH_MAX];
	size_t n = strlen(done);

	(void)strcpy(path, done);
	while (*rest) {
		size_t size = strcspn(rest, "/");

		if (size == 2 && rest[0] == '.' && rest[1] == '.') {
			named_note_parent_of(s, path);
			named_pop(path, &n);
		} else if (size > 0 && !(size == 1 && rest[0] == '.')) {
			if (n + 1 + size >= sizeof(path))
				return;
			path[n++] = '/';
			(void)memcpy(path + n, rest, size);
			n += size;
			path[n] = '\0';
		}
		rest += size;
		rest += *rest == '/';
	}
	named_note(s, path);
}

/* Put what a link leads to before the rest; false: too long. */
static bool named_follow_link(const char *target, char *done, size_t *n,
			      char rest[PATH_MAX], size_t at)
{
	char all[2 * PATH_MAX];
	int len;

	len = snprintf(all, sizeof(all), "%s/%s", target, rest + at);
	if (len < 0 || len >= PATH_MAX)
		return false;
	(void)strcpy(rest, all);
	if (target[0] == '/')
		*n = 0;
	else
		named_pop(done, n);
	done[*n] = '\0';
	return true;
}

/*
 * Thousands of paths begin with the same few directories, so remember which of these are
 * not links. A path replaces another one with the same hash.
 */
static char **named_known(struct named_search *s, const char *path, size_t n)
{
	uint32_t sum = 2166136261U;

	for (size_t i = 0; i < n; i++)
		sum = (sum ^ (unsigned char)path[i]) * 16777619U;
	return &s->known[sum % ARRAY_SIZE(s->known)];
}

static bool named_is_known(struct named_search *s, const char *path, size_t n)
{
	const char *known = *named_known(s, path, n);

	return known && strcmp(known, path) == 0;
}

static void named_know(struct named_search *s, const char *path, size_t n)
{
	char **known = named_known(s, path, n);

	free(*known);
	*known = strdup(path); /* if there is no memory, it is only slower */
}

static bool named_read_link(const char *path, char target[PATH_MAX])
{
	ssize_t size = readlink(path, target, PATH_MAX - 1);

	target[size > 0 ? size : 0] = '\0';
	return size > 0;
}

/* Go through the path as the kernel does; its last parts may not exist. */
static void named_trace(struct named_search *s, const char *path)
{
	char done[PATH_MAX] = "", rest[PATH_MAX], target[PATH_MAX];
	const size_t top = strlen(s->top);
	unsigned links = 0;
	size_t n = 0, at = 0;

	(void)snprintf(rest, sizeof(rest), "%s", path);
	/* There are no links in the way to the top, which most paths begin with. */
	if (s->top_real && strncmp(path, s->top, top) == 0 && path[top] == '/') {
		(void)memcpy(done, path, top);
		done[top] = '\0';
		n = at = top;
	}
	while (rest[at]) {
		size_t size = strcspn(rest + at, "/");
		const char *part = rest + at;

		at += size + (part[size] == '/');
		if (size == 0 || (size == 1 && part[0] == '.'))
			continue;
		if (size == 2 && part[0] == '.' && part[1] == '.') {
			named_note_parent_of(s, done);
			named_pop(done, &n);
			continue;
		}
		if (n + 1 + size >= sizeof(done))
			return;
		done[n++] = '/';
		(void)memcpy(done + n, part, size);
		n += size;
		done[n] = '\0';
		if (named_is_known(s, done, n))
			continue;
		if (!named_read_link(done, target)) {
			if (rest[at])
				named_know(s, done, n);
			continue;
		}
		named_note_rest(s, done, rest + at);
		if (++links > NAMED_LINKS_MAX ||
		    !named_follow_link(target, done, &n, rest, at))
			return;
		at = 0;
	}
	named_note(s, done);
}

void named_add(struct named_search *s, const char *base, const char *path)
{
	char absolute[PATH_MAX];
	size_t n;

	if (!named_join(s, base, path, absolute))
		return;
	named_note_rest(s, "", absolute);
	named_trace(s, absolute);
	/* Husky's hooks in .husky/_ run the scripts in .husky. */
	n = strlen(absolute);
	while (n > 1 && absolute[n - 1] == '/')
		absolute[--n] = '\0';
	if (n > 2 && strcmp(absolute + n - 2, "/_") == 0) {
		absolute[n - 2] = '\0';
		named_trace(s, absolute);
	}
}
