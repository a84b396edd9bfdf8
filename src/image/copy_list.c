/* SPDX-License-Identifier: Apache-2.0 */
/* copy_list.c - list and hash the files of a COPY instruction */
#include "image/copy_list.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/strv.h"

#define COPY_BLOCK (256U << 10)

static int copy_list_tree(struct copy_list *l, const char *path, const char *to,
			  unsigned depth, struct warren_error *err);

void copy_list_done(struct copy_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].path);
		free(l->v[i].to);
	}
	free(l->v);
	l->v = NULL;
	l->n = l->cap = 0;
}

static int copy_list_append(struct copy_list *l, const char *path, const char *to,
			    struct copy_entry **ret, struct warren_error *err)
{
	struct copy_entry *e;

	if (l->n == COPY_LIST_MAX)
		return error_set(err, E2BIG, "there are more than %d files to copy",
				 COPY_LIST_MAX);
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 64;
		void *grown = reallocarray(l->v, cap, sizeof(*l->v));

		if (!grown)
			return error_errno(err, ENOMEM, "list the files to copy");
		l->v = grown;
		l->cap = cap;
	}
	e = &l->v[l->n++];
	*e = (struct copy_entry){ .path = strdup(path), .to = strdup(to) };
	if (!e->path || !e->to)
		return error_errno(err, ENOMEM, "list the files to copy");
	*ret = e;
	return 0;
}

static void copy_list_drop_last(struct copy_list *l)
{
	l->n--;
	free(l->v[l->n].path);
	free(l->v[l->n].to);
}

static int copy_list_children(struct copy_list *l, const char *path, const char *to,
			      unsigned depth, struct warren_error *err)
{
	AUTO_STRV char **names = NULL;
	int r = view_list(l->from, path, &names);

	if (r < 0)
		return error_errno(err, -r, "list '%s'", path);
	if (depth == COPY_LIST_DEPTH)
		return error_set(err, ELOOP,
				 "'%.200s': directories are nested more than "
				 "%d levels deep",
				 path, COPY_LIST_DEPTH);
	for (char **n = names; r == 0 && *n; n++) {
		AUTO_FREE char *child = NULL, *target = NULL;

		if (asprintf(&child, "%s%s%s", path, *path ? "/" : "", *n) < 0)
			child = NULL;
		if (asprintf(&target, "%s%s%s", to, *to ? "/" : "", *n) < 0)
			target = NULL;
		r = child && target ? copy_list_tree(l, child, target, depth + 1, err)
				    : error_errno(err, ENOMEM, "list the files to copy");
	}
	return r;
}

static int copy_list_tree(struct copy_list *l, const char *path, const char *to,
			  unsigned depth, struct warren_error *err)
{
	bool skip = *path && l->skip && l->skip(l->ctx, path);
	struct copy_entry *e;
	struct stat st;
	size_t layer, before = l->n;
	int r = view_stat(l->from, path, &st, &layer);

	if (l->cancelled && l->cancelled())
		return error_set(err, ECANCELED, "cancelled");
	if (r < 0)
		return error_errno(err, -r, "inspect '%s'", path);
	if ((skip && !(S_ISDIR(st.st_mode) && l->skip_has_exceptions)) ||
	    S_ISSOCK(st.st_mode))
		return 0;
	if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode))
		return error_set(err, EPERM,
				 "'%.300s' is a device, which an image cannot "
				 "contain",
				 path);
	r = copy_list_append(l, path, to, &e, err);
	if (r < 0)
		return r;
	e->st = st;
	e->layer = layer;
	if (S_ISDIR(st.st_mode))
		r = copy_list_children(l, path, to, depth, err);
	/* A skipped directory is created only if a file in it is copied. */
	if (r == 0 && skip && l->n == before + 1)
		copy_list_drop_last(l);
	return r;
}

int copy_list_add(struct copy_list *l, const char *path, const char *to,
		  struct warren_error *err)
{
	return copy_list_tree(l, path, to, 0, err);
}

/* -------------------------------------------------------------------- hash */

static int copy_list_hash_file(const struct copy_list *l, const struct copy_entry *e,
			       char *block, struct hash *h)
{
	AUTO_CLOSE int fd = view_open_in(l->from, e->layer, e->path);
	uint64_t total = 0;
	ssize_t n;

	if (fd < 0)
		return fd;
	while ((n = read(fd, block, COPY_BLOCK)) != 0) {
		if (l->cancelled && l->cancelled())
			return -ECANCELED;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		hash_add(h, block, (size_t)n);
		total += (uint64_t)n;
	}
	hash_number(h, total);
	return 0;
}

static int copy_list_hash_link(const struct copy_list *l, const struct copy_entry *e,
			       struct hash *h)
{
	AUTO_FREE char *target = NULL;
	int r = view_readlink(l->from, e->layer, e->path, &target);

	if (r == 0)
		hash_text(h, target);
	return r;
}

int copy_list_hash(const struct copy_list *l, bool ids, struct hash *h,
		   struct warren_error *err)
{
	AUTO_FREE char *block = malloc(COPY_BLOCK);

	if (!block)
		return error_errno(err, ENOMEM, "hash the files to copy");
	hash_number(h, l->n);
	for (size_t i = 0; i < l->n; i++) {
		const struct copy_entry *e = &l->v[i];
		int r = 0;

		if (l->cancelled && l->cancelled())
			return error_set(err, ECANCELED, "cancelled");
		hash_text(h, e->to);
		hash_number(h, e->st.st_mode);
		hash_number(h, ids ? e->st.st_uid : 0);
		hash_number(h, ids ? e->st.st_gid : 0);
		if (S_ISREG(e->st.st_mode))
			r = copy_list_hash_file(l, e, block, h);
		else if (S_ISLNK(e->st.st_mode))
			r = copy_list_hash_link(l, e, h);
		if (r == -ECANCELED)
			return error_set(err, ECANCELED, "cancelled");
		if (r < 0)
			return error_errno(err, -r, "read '%s'", e->path);
	}
	return 0;
}
