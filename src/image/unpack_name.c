/* SPDX-License-Identifier: Apache-2.0 */
/* unpack_name.c - names of an archive: normalised, with links on their path resolved */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "image/unpack_internal.h"

/* ------------------------------------------------------------------ normalisation */

static int unpack_name_refuse(struct warren_error *err, const char *name, const char *why)
{
	return error_set(err, EBADMSG, "the name '%.200s' %s", name, why);
}

int unpack_add_part(char name[4096], size_t *len, const char *part, size_t n)
{
	if (n > UNPACK_PART_MAX || *len + n + 2 > 4096)
		return -ENAMETOOLONG;
	if (*len > 0)
		name[(*len)++] = '/';
	(void)memcpy(name + *len, part, n);
	*len += n;
	name[*len] = '\0';
	return 0;
}

int unpack_clean_name(const char *name, size_t depth_max, char ret[4096],
		      struct warren_error *err)
{
	size_t len = 0, depth = 0;

	ret[0] = '\0';
	for (const char *p = name; *p;) {
		size_t n = strcspn(p, "/");

		if (n == 2 && p[0] == '.' && p[1] == '.')
			return unpack_name_refuse(err, name, "contains '..'");
		if (n > (strncmp(p, ".wh.", 4) == 0 ? UNPACK_PART_MAX : NAME_MAX))
			return unpack_name_refuse(
				err, name, "has a part that is longer than 255 bytes");
		if (n > 0 && !(n == 1 && p[0] == '.')) {
			if (++depth > depth_max)
				return unpack_name_refuse(err, name, "is too deep");
			if (unpack_add_part(ret, &len, p, n) < 0)
				return unpack_name_refuse(err, name, "is too long");
		}
		p += n;
		p += *p == '/';
	}
	return 0;
}

/* --------------------------------------------------------------- links in the path */

/*
 * A walk down the tree, one component at a time. Each directory is opened from its parent
 * without following a link, and no other process changes the tree, so ".." is always that
 * parent; the root has no parent.
 */
struct walk {
	int root;
	int at;         /* the last existing directory; -1: the root */
	size_t missing; /* number of missing components after it */
	int links, steps;
	size_t len;
	char *name; /* the name so far, in 4096 bytes */
	char rest[4096];
};

static void go_to(struct walk *w, int fd)
{
	if (w->at >= 0)
		(void)close(w->at);
	w->at = fd;
}

static int go_up(struct walk *w)
{
	if (w->len == 0)
		return 0;
	while (w->len > 0 && w->name[--w->len] != '/')
		;
	w->name[w->len] = '\0';
	if (w->missing > 0) {
		w->missing--;
		return 0;
	}
	if (w->len == 0) {
		go_to(w, -1);
		return 0;
	}
	go_to(w, openat(w->at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
	return w->at < 0 ? -errno : 0;
}

static int go_down(struct walk *w, const char *part)
{
	int fd, r = unpack_add_part(w->name, &w->len, part, strlen(part));

	if (r < 0)
		return r;
	fd = w->missing > 0 ? -1
			    : openat(w->at < 0 ? w->root : w->at, part,
				     O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		w->missing++;
	else
		go_to(w, fd);
	return 0;
}

/* If @part is a link, put its target before the rest of the path. Return 1 if it is a
 * link. */
static int unpack_name_follow(struct walk *w, const char *part)
{
	char target[4096];
	size_t left = strlen(w->rest);
	ssize_t n = w->missing > 0 ? -1
				   : readlinkat(w->at < 0 ? w->root : w->at, part, target,
						sizeof(target) - 1);

	if (n < 0)
		return 0;
	if ((size_t)n + left + 2 > sizeof(w->rest))
		return -ENAMETOOLONG;
	if (++w->links > UNPACK_FOLLOWED)
		return -ELOOP;
	(void)memmove(w->rest + n + 1, w->rest, left + 1);
	(void)memcpy(w->rest, target, (size_t)n);
	w->rest[n] = '/';
	if (w->rest[0] == '/') {
		go_to(w, -1);
		w->name[w->len = 0] = '\0';
	}
	return 1;
}

static int unpack_name_step(struct walk *w)
{
	size_t n = strcspn(w->rest, "/"), skip = n + (w->rest[n] == '/');
	char part[sizeof(w->rest)];
	int r;

	(void)memcpy(part, w->rest, n);
	part[n] = '\0';
	(void)memmove(w->rest, w->rest + skip, strlen(w->rest + skip) + 1);
	if (n == 0 || strcmp(part, ".") == 0)
		return 0;
	if (++w->steps > UNPACK_STEPS)
		return -ELOOP;
	if (strcmp(part, "..") == 0)
		return go_up(w);
	r = unpack_name_follow(w, part);
	return r == 0 ? go_down(w, part) : r < 0 ? r : 0;
}

int unpack_resolve_name(int root, const char *name, char ret[4096])
{
	struct walk w = { .root = root, .at = -1, .name = ret };
	int r = 0;

	(void)snprintf(w.rest, sizeof(w.rest), "%s", name);
	ret[0] = '\0';
	while (r == 0 && *w.rest)
		r = unpack_name_step(&w);
	go_to(&w, -1);
	return r;
}
