/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_resolve.c - the absolute path without links, like realpath(3)
 *
 * The path is looked up one name at a time, inside the sandbox: @op->to has no links, and
 * @op->rest has the names that are left. A link is replaced by what it contains. Only the
 * answer depends on these paths, so a sandbox that changes links at the same time can
 * only get a wrong answer.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "service/files/files.h"

#define LINKS_MAX 40   /* the same as the kernel's limit */
#define NAMES_MAX 1024 /* names that are looked up */

struct file_resolve_op {
	struct files *files;
	struct file_resolved at; /* path "": the root */
	char rest[4096];
	unsigned links, names;
	bool known; /* at.is is true of at.path */
	void (*done)(void *ctx, const struct file_resolved *r,
		     const struct warren_error *err);
	void *ctx;
};

struct file_resolve_op *file_resolve_free(struct file_resolve_op *op)
{
	free(op);
	return NULL;
}

static void file_resolve_fail(struct file_resolve_op *op, int code)
{
	struct warren_error err = WARREN_ERROR_INIT;

	(void)error_errno(&err, code, "follow '%.200s'", op->at.path);
	op->done(op->ctx, NULL, &err);
	free(op);
}

/* Take the next name out of the rest; "": there is none. -ENAMETOOLONG. */
static int file_resolve_take(struct file_resolve_op *op, char name[256])
{
	const char *from = op->rest + strspn(op->rest, "/");
	size_t n = strcspn(from, "/");

	if (n > 255)
		return -ENAMETOOLONG;
	(void)snprintf(name, 256, "%.*s", (int)n, from);
	(void)memmove(op->rest, from + n, strlen(from + n) + 1);
	return 0;
}

static void file_resolve_up(struct file_resolve_op *op)
{
	char *slash = strrchr(op->at.path, '/');

	if (slash)
		*slash = '\0';
}

static void file_resolve_step(struct file_resolve_op *op);

/* The last name was a link: go on with what it contains. */
static void file_resolve_link(struct file_resolve_op *op, const char *link)
{
	char rest[sizeof(op->rest)];
	int n = snprintf(rest, sizeof(rest), "%s%s", link, op->rest);

	if (++op->links > LINKS_MAX || !link[0]) {
		file_resolve_fail(op, ELOOP);
		return;
	}
	if (n < 0 || (size_t)n >= sizeof(rest)) {
		file_resolve_fail(op, ENAMETOOLONG);
		return;
	}
	(void)strcpy(op->rest, rest);
	op->known = false;
	if (link[0] == '/')
		op->at.path[0] = '\0';
	else
		file_resolve_up(op);
	file_resolve_step(op);
}

static void file_resolve_over(struct file_resolve_op *op)
{
	if (!op->at.path[0])
		(void)strcpy(op->at.path, "/");
	op->done(op->ctx, &op->at, NULL);
	free(op);
}

static void file_resolve_on_look(void *ctx, struct files_answer *a,
				 const struct warren_error *err)
{
	struct file_resolve_op *op = ctx;
	struct proto_found found;
	size_t at = 0;

	/* The last name may be missing. */
	if (err && err->code == ENOENT && !op->rest[strspn(op->rest, "/")]) {
		op->at.exists = false;
		file_resolve_over(op);
	} else if (err) {
		op->done(op->ctx, NULL, err);
		free(op);
	} else if (proto_next(a->entries, a->size, &at, &found) != 1) {
		file_resolve_fail(op, EPROTO);
	} else if (S_ISLNK(found.is.mode)) {
		file_resolve_link(op, found.link);
	} else {
		op->at.exists = true;
		op->at.is = found.is;
		op->known = true;
		file_resolve_step(op);
	}
}

/* Add @name to the path and look it up; "": look up the path itself. */
static void file_resolve_look(struct file_resolve_op *op, const char *name)
{
	size_t n = strlen(op->at.path), room = sizeof(op->at.path) - n;

	if (name[0] && (size_t)snprintf(op->at.path + n, room, "/%s", name) >= room)
		file_resolve_fail(op, ENAMETOOLONG);
	else if (++op->names > NAMES_MAX)
		file_resolve_fail(op, ELOOP);
	else
		files_stat(op->files, -1, op->at.path[0] ? op->at.path : "/", false,
			   file_resolve_on_look, op);
}

/* op->at.is describes op->at.path only directly after that was looked up. */
static void file_resolve_step(struct file_resolve_op *op)
{
	char name[256];
	int r = file_resolve_take(op, name);

	while (r == 0 && (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)) {
		if (name[1]) {
			file_resolve_up(op);
			op->known = false;
		}
		r = file_resolve_take(op, name);
	}
	if (r < 0)
		file_resolve_fail(op, -r);
	else if (!name[0] && op->known)
		file_resolve_over(op);
	else
		file_resolve_look(op, name);
}

void file_resolve(struct files *f, const char *path,
		  void (*done)(void *ctx, const struct file_resolved *r,
			       const struct warren_error *err),
		  void *ctx, struct file_resolve_op **ret)
{
	struct file_resolve_op *op = calloc(1, sizeof(*op));
	struct warren_error err = WARREN_ERROR_INIT;

	*ret = NULL;
	if (!op || strlen(path) >= sizeof(op->rest)) {
		(void)error_errno(&err, op ? ENAMETOOLONG : ENOMEM, "follow '%.40s'",
				  path);
		free(op);
		done(ctx, NULL, &err);
		return;
	}
	op->files = f;
	op->done = done;
	op->ctx = ctx;
	(void)strcpy(op->rest, path);
	*ret = op;
	file_resolve_step(op);
}
