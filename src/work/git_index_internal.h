/* SPDX-License-Identifier: Apache-2.0 */
/* git_index_internal.h - the format of an index: a header, entries, extensions, a hash */
#ifndef WORK_GIT_INDEX_INTERNAL_H
#define WORK_GIT_INDEX_INTERNAL_H

#include <stdint.h>

#include "work/git_index.h"

#define INDEX_HEADER   12
#define INDEX_STAT     40
#define INDEX_EXTENDED 0x4000 /* two more bytes of flags */
#define INDEX_SKIP     0x4000 /* in these flags: the file is not checked out */
#define INDEX_STAGE    0x3000 /* number of a version in an unfinished merge */
#define INDEX_LENGTH   0x0fff /* length of the path; 0x0fff: this long, or longer */
#define INDEX_PATH_MAX 4096
/* All paths together may take this, and 8 times the size of the index. */
#define INDEX_PATHS_MIN ((size_t)1 << 20)

struct index_reader {
	const unsigned char *at, *end;
	size_t id_size;
	uint32_t version;
	char path[INDEX_PATH_MAX]; /* of the last entry */
	size_t path_n;
};

static inline uint32_t git_index_u32(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline unsigned git_index_u16(const unsigned char *p)
{
	return (unsigned)p[0] << 8 | p[1];
}

/* Begin to read the entries of @data. */
int git_index_begin(const char *data, size_t n, size_t id_size, struct index_reader *ret,
		    uint32_t *ret_count);
/* Read an entry, with its path in r->path. */
int git_index_entry(struct index_reader *r);
/* After all entries: find an extension; NULL: there is none. */
const unsigned char *git_index_extension(const struct index_reader *r, const char *name,
					 size_t *ret_size);
void git_index_put16(struct buf *out, unsigned value);
/* Append the hash of what is in @out. */
void git_index_sum(struct buf *out, size_t id_size);

#endif /* WORK_GIT_INDEX_INTERNAL_H */
