/* SPDX-License-Identifier: Apache-2.0 */
/* tree_restore_links.c - which file of the copy became which file of the root */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/macro.h"
#include "os/tree_restore.h"
#include "os/tree_restore_internal.h"

#define RESTORE_LINKS_MAX  (1U << 21) /* a power of two; at most half of it is used */
#define RESTORE_PATHS_SIZE (256UL << 20)

struct restore_row {
	bool used;
	dev_t dev;
	ino_t ino;
	dev_t other_dev; /* the file of the other tree */
	ino_t other_ino;
	size_t path;     /* in the root; only in by_old */
	nlink_t removed; /* number of names that will be removed; only in by_new */
};

/* Pages that are not used take no memory. */
struct restore_links {
	size_t n, paths_used;
	struct restore_row by_old[RESTORE_LINKS_MAX], by_new[RESTORE_LINKS_MAX];
	char paths[RESTORE_PATHS_SIZE];
};

struct restore_links *restore_links_new(void)
{
	void *l = mmap(NULL, sizeof(struct restore_links), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return l == MAP_FAILED ? NULL : l;
}

void restore_links_free(struct restore_links *l)
{
	if (l)
		(void)munmap(l, sizeof(*l));
}

/* The row of a file, or the free row where it belongs. */
static struct restore_row *restore_links_row(struct restore_row *rows,
					     const struct stat *st)
{
	uint64_t at = (uint64_t)st->st_ino * 0x9e3779b97f4a7c15ULL >> 20;

	for (;; at++) {
		struct restore_row *row = &rows[at % RESTORE_LINKS_MAX];

		if (!row->used || (row->dev == st->st_dev && row->ino == st->st_ino))
			return row;
	}
}

enum restore_link restore_links_find(struct restore_links *l, const struct stat *old,
				     const struct stat *new, const char **ret_path)
{
	const struct restore_row *row = restore_links_row(l->by_old, old);

	if (row->used && new && row->other_dev == new->st_dev &&
	    row->other_ino == new->st_ino)
		return RESTORE_LINK_SAME;
	if (row->used) {
		*ret_path = l->paths + row->path;
		return RESTORE_LINK_OTHER;
	}
	return new &&restore_links_row(l->by_new, new)->used ? RESTORE_LINK_TAKEN
							     : RESTORE_LINK_FIRST;
}

bool restore_links_last(struct restore_links *l, const struct stat *st)
{
	struct restore_row *row = restore_links_row(l->by_new, st);

	if (!row->used && l->n == RESTORE_LINKS_MAX / 2)
		return false;
	if (!row->used) {
		*row = (struct restore_row){ .used = true,
					     .dev = st->st_dev,
					     .ino = st->st_ino };
		l->n++;
	}
	return ++row->removed == st->st_nlink;
}

/* Files that had one name need no room, so that some is left for those of the copy. */
bool restore_links_full(const struct restore_links *l)
{
	return l->n >= RESTORE_LINKS_MAX / 2 - TREE_RESTORE_LINKED_MAX ||
	       l->paths_used >= sizeof(l->paths) - TREE_RESTORE_PATHS_MAX;
}

int restore_links_add(struct restore_links *l, const struct stat *old,
		      const struct stat *new, const char *path)
{
	struct restore_row *row = restore_links_row(l->by_old, old);
	size_t size = strlen(path) + 1;

	if (l->n == RESTORE_LINKS_MAX / 2 || size > sizeof(l->paths) - l->paths_used)
		return -ENOMEM;
	*row = (struct restore_row){ .used = true,
				     .dev = old->st_dev,
				     .ino = old->st_ino,
				     .path = l->paths_used };
	if (new) {
		row->other_dev = new->st_dev;
		row->other_ino = new->st_ino;
		*restore_links_row(l->by_new, new) = (struct restore_row){
			.used = true, .dev = new->st_dev, .ino = new->st_ino
		};
	}
	(void)memcpy(l->paths + l->paths_used, path, size);
	l->paths_used += size;
	l->n++;
	return 0;
}
