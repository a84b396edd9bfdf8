/* SPDX-License-Identifier: Apache-2.0 */
/* unpack_tar.h - the state of the untar process */
#ifndef IMAGE_UNPACK_TAR_H
#define IMAGE_UNPACK_TAR_H

#include "image/unpack_internal.h"

struct archive;
struct archive_entry;

/* A symbolic link of an outer archive: created at the end, when its target exists. */
struct untar_link {
	struct untar_link *next;
	char *target; /* stored after the name */
	char name[];
};

struct untar {
	struct archive *a;
	int in;
	uint64_t got; /* bytes read from `in` */
	bool padded;  /* `in` has ended, and its last block was padded */
	const struct unpack_rules *rules;
	struct unpack_report *ret;
	struct unpack_tree tree;
	struct untar_link *links;
	size_t n_links;
	char block[UNPACK_BLOCK];
};

/* Write the data of the current entry to @fd; holes stay holes. */
int untar_data(struct untar *u, struct archive_entry *e, const char *name, int fd,
	       struct warren_error *err);

/* ------------------------------------------------------------ unpack_spool.c */

int untar_spool_entry(struct untar *u, struct archive_entry *e, struct warren_error *err);
int untar_spool_links(struct untar *u, struct warren_error *err);
void untar_spool_done(struct untar *u);

#endif /* IMAGE_UNPACK_TAR_H */
