/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree_walk.h - walk two trees at the same time, where they may differ
 *
 * Each tree is a view of an overlay: upper directories on top of a lower one, which is
 * the same for both trees. So they can differ only where one of them has an upper
 * directory, and everything else is skipped. Whiteouts and opaque directories of upper
 * directories are understood; the lower directory is a plain one.
 *
 * The trees are untrusted, and may change during the walk: links are never followed, and
 * an entry that disappears is skipped. Nothing is allocated with malloc(3), so that a
 * process can call this after clone(2).
 */
#ifndef OS_TREE_WALK_H
#define OS_TREE_WALK_H

#include <stdint.h>
#include <sys/stat.h>

#include "base/error.h"

/*
 * Each level needs a descriptor for each directory of both sides. A tree that can be
 * copied can be walked through: TREE_COPY_DEPTH_MAX is lower.
 */
#define TREE_WALK_DEPTH_MAX 512
#define TREE_WALK_PATH_MAX  (TREE_WALK_DEPTH_MAX * 256)
#define TREE_UPPERS_MAX     8

/* The parts of a directory of a tree. */
struct tree_side {
	int lower; /* -1: none */
	size_t n_uppers;
	int uppers[TREE_UPPERS_MAX]; /* the topmost first */
};

/* @upper -1: none. */
static inline struct tree_side tree_side(int upper, int lower)
{
	return (struct tree_side){ .lower = lower,
				   .n_uppers = upper >= 0,
				   .uppers = { upper } };
}

/* An entry of a directory, in one of the trees. */
struct tree_entry {
	bool exists;
	bool in_upper;
	int dir; /* the directory that contains it */
	struct stat st;
};

struct tree_pair {
	const char *name;
	struct tree_entry old, new;
};

struct tree_walk {
	/*
	 * Called for each entry that exists in at least one tree, and may differ. Returns
	 * 1: walk through the directory, in the trees where it is one; 0: do not; or
	 * -errno.
	 */
	int (*visit)(struct tree_walk *w, const struct tree_pair *pair);
	/* Called after the entries of a directory; may be NULL. */
	int (*leave)(struct tree_walk *w, const struct tree_pair *pair);
	void *ctx;
	unsigned depth;     /* of the current directory; 0: the root */
	bool too_deep;      /* directories below TREE_WALK_DEPTH_MAX were skipped */
	size_t path_length; /* of the path of the current entry */
	char path[TREE_WALK_PATH_MAX + 1]; /* "/..."; of the current entry */
	/* Private. */
	int error; /* why an entry could not be read, unless it is missing
		    */
	struct tree_walk_level *levels;
};

/* Walk from the roots @old and @new. The struct is large, and must not be on the stack.
 */
int tree_walk(struct tree_walk *w, const struct tree_side *old,
	      const struct tree_side *new);

/* Buffers for a comparison. */
struct tree_compare {
	bool all; /* compare the attributes of the machine's security modules as well */
	char names[2][64U << 10];
	char values[2][64U << 10];
};

/*
 * Return whether two existing entries are the same: type, owner, mode, attributes, target
 * of a link, contents and time of a file; with @dir_times, the time of a directory as
 * well. 1, 0 or -errno.
 */
int tree_compare(struct tree_compare *c, const struct tree_pair *pair, bool dir_times);

/*
 * Attributes have the names that a user of the overlay sees. A layer has others: there,
 * user.overlay.* are marks of the overlay itself, and attributes of files with such a
 * name have another prefix.
 */
struct tree_attribute {
	char name[256];
};

/* Is it a file of a layer? Otherwise, it is shown by an overlay. */
bool tree_is_layer(int fd);
/*
 * Get the name of the attribute @stored of a file. Return false if it belongs to the
 * overlay, or to the machine unless @all is set.
 */
bool tree_attribute_shown(bool layer, bool all, const char *stored,
			  struct tree_attribute *ret);
/* Get the name under which the attribute @shown is stored. */
void tree_attribute_stored(bool layer, const struct tree_attribute *shown,
			   struct tree_attribute *ret);

#endif /* OS_TREE_WALK_H */
