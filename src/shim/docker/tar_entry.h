/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tar_entry.h - a tar archive of one file, for the Engine API. Pure functions on bytes
 *
 * The writer produces ustar, with GNU's header for a long name. The reader parses what
 * the daemon sends for one path: it searches extension headers (pax) for the fields that
 * matter here, and uses the first entry.
 */
#ifndef SHIM_DOCKER_TAR_ENTRY_H
#define SHIM_DOCKER_TAR_ENTRY_H

#include <stdint.h>

#include "base/buf.h"

#define ENTRY_BLOCK     512U
#define ENTRY_HEAD_MAX  (8U << 10) /* maximum head of an archive that is written */
#define ENTRY_EXTRA_MAX (64U << 10)
#define ENTRY_LINK_MAX  4096

struct entry {
	enum {
		ENTRY_HEAD,  /* expects a header */
		ENTRY_EXTRA, /* expects data of an extension header */
		ENTRY_DATA,  /* .type is set; .left bytes of data follow */
		ENTRY_END,
	} state;
	char type; /* '0': a file; '2': a symbolic link to .link; '5': a directory; ... */
	char link[ENTRY_LINK_MAX];
	uint64_t left;
	/* State of the reader. */
	char block[ENTRY_BLOCK];
	size_t have;
	uint64_t pad;
	char extra_type;
	struct buf extra;
	uint64_t size; /* from a pax header */
	bool has_size, has_link;
};

/* Append the head of the archive; false: it did not fit. */
bool entry_write(struct buf *out, const char *name, uint64_t size, uint32_t mode,
		 uint32_t uid, uint32_t gid);
/* Number of zero bytes that end the archive after @size bytes of data. */
size_t entry_tail(uint64_t size);

void entry_init(struct entry *e);
void entry_done(struct entry *e);
/*
 * Parse some of the @n bytes at @data: *@ret_used of them are used, and the last
 * *@ret_piece of these are file data. 0, or -EBADMSG: it is not an archive.
 */
int entry_take(struct entry *e, const char *data, size_t n, size_t *ret_used,
	       size_t *ret_piece);

#endif /* SHIM_DOCKER_TAR_ENTRY_H */
