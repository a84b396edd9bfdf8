/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy_list.h - the files that a COPY instruction copies: listed once, then hashed for
 * the build cache, and copied into a layer if the cache does not have it
 */
#ifndef IMAGE_COPY_LIST_H
#define IMAGE_COPY_LIST_H

#include "image/hash.h"
#include "image/view.h"

enum copy_list_limits {
	COPY_LIST_MAX = 2000000, /* files */
	COPY_LIST_DEPTH = 200,   /* maximum depth of directories */
};

struct copy_entry {
	char *path; /* in the source */
	char *to;   /* below the destination; "": the destination itself */
	struct stat st;
	size_t layer; /* of the source */
};

struct copy_list {
	const struct view *from;
	struct copy_entry *v;
	size_t n, cap;
	/* Files to leave out, by their path in the source; NULL: none. */
	bool (*skip)(void *ctx, const char *path);
	/* Whether a file in a skipped directory may be copied. */
	bool skip_has_exceptions;
	void *ctx;
	bool (*cancelled)(void); /* also checked within files; NULL: never */
};

/*
 * Add the file or directory at @path, which must exist and have no links on its way, with
 * everything in it. Sockets are left out. -EPERM: it contains a device.
 */
int copy_list_add(struct copy_list *l, const char *path, const char *to,
		  struct warren_error *err) MUST_CHECK;
void copy_list_done(struct copy_list *l);

/*
 * Add names, types, modes, contents and, with @ids, owners to @h. Times do not count.
 */
int copy_list_hash(const struct copy_list *l, bool ids, struct hash *h,
		   struct warren_error *err) MUST_CHECK;

#endif /* IMAGE_COPY_LIST_H */
