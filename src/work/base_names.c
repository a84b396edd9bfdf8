/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base_names.c - which files the commit has that the repository was at
 *
 * An accept asks this for each new file. One call of git lists all names, because one
 * call for each file would take longer than everything else.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "work/changes_internal.h"
#include "work/git_run.h"

#define BASE_NAMES_MAX ((size_t)256 << 20) /* bytes of all names */

struct base_names {
	struct buf text; /* the names, each with its NUL */
	const char **v;  /* sorted */
	size_t n;
	bool known; /* otherwise, git could not list them */
};

static int names_order(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Find the names in the output of git, which is usually sorted already. */
static int names_index(struct base_names *b)
{
	const char *end = b->text.data + b->text.len;
	const char *last = NULL;
	bool sorted = true;
	size_t n = 0;

	if (b->text.len && end[-1] != '\0')
		return -EPROTO;
	for (size_t i = 0; i < b->text.len; i++)
		n += b->text.data[i] == '\0';
	b->v = calloc(n + 1, sizeof(*b->v));
	if (!b->v)
		return -ENOMEM;
	for (const char *name = b->text.data; b->n < n; name += strlen(name) + 1) {
		sorted = sorted && (!last || strcmp(last, name) < 0);
		b->v[b->n++] = last = name;
	}
	if (!sorted)
		qsort(b->v, b->n, sizeof(*b->v), names_order);
	return 0;
}

static void names_load(struct work *w, struct base_names *b)
{
	const char *const argv[] = { "ls-tree",     "-r",          "-z",
				     "--name-only", w->since_head, NULL };
	const struct git_command c = { .argv = argv, .in = -1, .out = -1 };
	struct warren_error ignored;

	b->text = (struct buf)BUF_INIT(BASE_NAMES_MAX);
	b->known = git_run(w, &c, &b->text, &ignored) == 0 && names_index(b) == 0;
}

bool base_names_lack(struct work *w, const char *path, const char *head)
{
	/* Only files that the sandbox had before it was resumed have another one. */
	if (!w->since_head || strcmp(head, w->since_head) != 0)
		return false;
	if (!w->names) {
		w->names = calloc(1, sizeof(*w->names));
		if (!w->names)
			return false;
		names_load(w, w->names);
	}
	return w->names->known &&
	       (!w->names->n ||
		!bsearch(&path, w->names->v, w->names->n, sizeof(path), names_order));
}

void base_names_free(struct base_names *b)
{
	if (!b)
		return;
	buf_done(&b->text);
	free(b->v);
	free(b);
}
