/* SPDX-License-Identifier: Apache-2.0 */
/* unpack_tar.h - the state of the untar process */
#ifndef IMAGE_UNPACK_TAR_H
#define IMAGE_UNPACK_TAR_H

#include "image/unpack_internal.h"

struct archive;
struct archive_entry;

/* A symbolic link of a spooled archive: made at the end, when its target is there. */
struct untar_link {
	struct untar_link *next;
	char *target; /* behind the name */
	char name[];
};

struct untar {
	struct archive *a;
	int in;
	uint64_t got; /* bytes read from it */
	bool padded;  /* it has ended, and its last block was filled up */
	const struct unpack_rules *rules;
	struct unpack_report *ret;
	struct unpack_tree tree;
	struct untar_link *links;
	size_t n_links;
	char block[UNPACK_BLOCK];
};

/* The data of the current entry, into @fd; holes stay holes. */
int untar_data(struct untar *u, struct archive_entry *e, const char *name, int fd,
	       struct warren_error *err);

/* ------------------------------------------------------------ unpack_spool.c */

int untar_spool_entry(struct untar *u, struct archive_entry *e, struct warren_error *err);
int untar_spool_links(struct untar *u, struct warren_error *err);
void untar_spool_done(struct untar *u);

#endif /* IMAGE_UNPACK_TAR_H */
