/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_target.c - find where to write a file
 *
 * A file is replaced in one step: a new file is written next to the old one and renamed.
 * So a link at the end of the path must be followed here; otherwise the file would
 * replace the link. The target of a link is only used as the next path to look up, and
 * init resolves it inside the sandbox, wherever it leads.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "service/files/files.h"

#define LINKS_MAX 40 /* the same as the kernel's limit */

struct file_target_op {
	struct files *files;
	struct file_target target;
	bool parents;
	unsigned links;
	void (*done)(void *ctx, struct file_target *p, const struct warren_error *err);
	void *ctx;
};

void files_tidy(char *path)
{
	char *to = path;

	for (const char *from = path; *from; from++)
		if (*from != '/' || to == path || to[-1] != '/')
			*to++ = *from;
	if (to > path + 1 && to[-1] == '/')
		to--;
	*to = '\0';
}

struct file_target_op *file_target_free(struct file_target_op *j)
{
	if (j && j->target.dir >= 0)
		(void)close(j->target.dir);
	free(j);
	return NULL;
}

static void file_target_look(struct file_target_op *j);

static void file_target_over(struct file_target_op *j, const struct warren_error *err)
{
	j->done(j->ctx, err ? NULL : &j->target, err);
	free(j);
}

static void file_target_fail(struct file_target_op *j, int code)
{
	struct warren_error err = WARREN_ERROR_INIT;

	(void)error_errno(&err, code, "write '%.200s'", j->target.path);
	file_target_over(j, &err);
}

static void file_target_open_parent(struct file_target_op *j);

static void file_target_on_made(void *ctx, struct files_answer *a UNUSED,
				const struct warren_error *err)
{
	struct file_target_op *j = ctx;

	j->parents = false;
	if (err)
		file_target_over(j, err);
	else
		file_target_open_parent(j);
}

static size_t parent_len(const struct file_target_op *j)
{
	size_t n = (size_t)(strrchr(j->target.path, '/') - j->target.path);

	return n > 0 ? n : 1;
}

static void file_target_on_parent(void *ctx, struct files_answer *a,
				  const struct warren_error *err)
{
	struct file_target_op *j = ctx;
	char path[sizeof(j->target.path)];

	if (err && err->code == ENOENT && j->parents) {
		(void)snprintf(path, sizeof(path), "%.*s", (int)parent_len(j),
			       j->target.path);
		files_make_dirs(j->files, path, 0755, file_target_on_made, j);
		return;
	}
	if (!err)
		j->target.dir = TAKE_FD(a->fd);
	file_target_over(j, err);
}

static void file_target_open_parent(struct file_target_op *j)
{
	char path[sizeof(j->target.path)];
	const char *name = strrchr(j->target.path, '/') + 1;

	if (name[0] == '\0' || strlen(name) >= sizeof(j->target.name)) {
		file_target_fail(j, name[0] ? ENAMETOOLONG : EISDIR);
		return;
	}
	(void)strcpy(j->target.name, name);
	(void)snprintf(path, sizeof(path), "%.*s", (int)parent_len(j), j->target.path);
	files_open(j->files, -1, path, O_PATH | O_DIRECTORY, 0, file_target_on_parent, j);
}

static void file_target_follow(struct file_target_op *j, const char *link)
{
	char path[sizeof(j->target.path)];
	int n;

	if (++j->links > LINKS_MAX) {
		file_target_fail(j, ELOOP);
		return;
	}
	if (link[0] == '/')
		n = snprintf(path, sizeof(path), "%s", link);
	else
		n = snprintf(path, sizeof(path), "%.*s/%s", (int)parent_len(j),
			     j->target.path, link);
	if (n < 0 || (size_t)n >= sizeof(path) || !link[0]) {
		file_target_fail(j, ENAMETOOLONG);
		return;
	}
	(void)strcpy(j->target.path, path);
	files_tidy(j->target.path);
	file_target_look(j);
}

static void file_target_on_look(void *ctx, struct files_answer *a,
				const struct warren_error *err)
{
	struct file_target_op *j = ctx;
	struct proto_found found;
	size_t at = 0;

	if (err && err->code != ENOENT) {
		file_target_over(j, err);
		return;
	}
	if (!err && proto_next(a->entries, a->size, &at, &found) != 1) {
		file_target_fail(j, EPROTO);
		return;
	}
	if (!err && S_ISLNK(found.is.mode)) {
		file_target_follow(j, found.link);
		return;
	}
	if (!err && !S_ISREG(found.is.mode)) {
		file_target_fail(j, S_ISDIR(found.is.mode) ? EISDIR : ENXIO);
		return;
	}
	j->target.exists = !err;
	if (!err)
		j->target.is = found.is;
	file_target_open_parent(j);
}

static void file_target_look(struct file_target_op *j)
{
	files_stat(j->files, -1, j->target.path, false, file_target_on_look, j);
}

void file_target_find(struct files *f, const char *path, bool parents,
		      void (*done)(void *ctx, struct file_target *p,
				   const struct warren_error *err),
		      void *ctx, struct file_target_op **ret)
{
	struct file_target_op *j = calloc(1, sizeof(*j));
	struct warren_error err = WARREN_ERROR_INIT;

	*ret = NULL;
	if (!j || strlen(path) >= sizeof(j->target.path)) {
		free(j);
		(void)error_errno(&err, ENOMEM, "write '%.40s'", path);
		done(ctx, NULL, &err);
		return;
	}
	j->files = f;
	j->target.dir = -1;
	j->parents = parents;
	j->done = done;
	j->ctx = ctx;
	(void)strcpy(j->target.path, path);
	*ret = j;
	file_target_look(j);
}
