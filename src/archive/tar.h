/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tar.h - write archives, and read them strictly as their bytes arrive; with compression
 *
 * Pure functions on bytes. What is read is ustar with the extensions of pax and
 * GNU for long names and large numbers. An archive is right, or it is refused:
 * a wrong sum, a name that is absolute or climbs, a sparse file, an end in the
 * middle of an entry.
 */
#ifndef ARCHIVE_TAR_H
#define ARCHIVE_TAR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "proto/init_proto.h"

#define TAR_BLOCK 512U

/* --------------------------------------------------------------------- writing */

/* The header of an entry; @size is that of the data which follows, of a file. */
void tar_put(struct buf *out, const char *name, const struct proto_entry *is,
	     const char *link, uint64_t size);
/* The zeros behind @size bytes of data. */
void tar_pad(struct buf *out, uint64_t size);
void tar_end(struct buf *out);

/* --------------------------------------------------------------------- reading */

enum tar_type {
	TAR_FILE,
	TAR_DIRECTORY,
	TAR_SYMLINK,
	TAR_LINK, /* another name of an entry before */
};

struct tar_entry {
	enum tar_type type;
	char name[4096]; /* relative, tidy; "": the directory itself */
	char link[4096]; /* of TAR_LINK as a name, of TAR_SYMLINK as it is */
	uint64_t size;
	uint32_t mode, uid, gid;
	int64_t mtime;
};

struct tar_reader {
	enum {
		TAR_AT_HEADER,
		TAR_AT_EXTRA, /* the data of a header that is for the next one */
		TAR_AT_DATA,
		TAR_AT_PAD,
		TAR_AT_END,
	} state;
	struct tar_entry entry;
	char block[TAR_BLOCK];
	size_t have;        /* of the block */
	uint64_t left, pad; /* of data and of what fills it up */
	char extra_type;    /* 'x', 'g', 'L', 'K' */
	struct buf extra;
	/* What such a header said. */
	bool has_name, has_link, has_size, has_uid, has_gid, has_mtime;
	char name[4096], link[4096];
	uint64_t size;
	uint32_t uid, gid;
	int64_t mtime;
	unsigned zeros; /* blocks */
};

enum tar_event {
	TAR_MORE,  /* all was taken */
	TAR_ENTRY, /* r->entry; then its data */
	TAR_DATA,
	TAR_ENTRY_END,
	TAR_OVER, /* what follows means nothing */
};

void tar_init(struct tar_reader *r);
void tar_done(struct tar_reader *r);
/*
 * Take from the @n bytes at @data: *@ret_used of them. Of TAR_DATA they are data.
 * -EBADMSG, -ENODEV (a device or pipe), -EINVAL (a name that leads out).
 */
int tar_take(struct tar_reader *r, const char *data, size_t n, size_t *ret_used,
	     struct warren_error *err);
/* Whether it may end here. */
bool tar_is_whole(const struct tar_reader *r);

/* ----------------------------------------------------------------- compression */

enum pack_kind {
	PACK_NONE,
	PACK_GZIP,
	PACK_ZSTD,
	PACK_ZIP, /* to be read only: its entries come as those of a tar */
};

struct pack;

int pack_new(enum pack_kind kind, struct pack **ret, struct warren_error *err);
struct pack *pack_free(struct pack *p);
/* @n bytes more, with @end the last; what comes of it is added to @out. */
int pack_put(struct pack *p, const void *data, size_t n, bool end, struct buf *out,
	     struct warren_error *err);

struct unpack;

/* What the first @n bytes are; 4 are enough. */
enum pack_kind unpack_kind(const char *data, size_t n);
int unpack_new(enum pack_kind kind, struct unpack **ret, struct warren_error *err);
struct unpack *unpack_free(struct unpack *u);
/*
 * Some of the @n bytes at @data into @out: *@ret_used of them become *@ret_made.
 * Nothing made and nothing used is the end of what there is.
 */
int unpack_take(struct unpack *u, const char *data, size_t n, size_t *ret_used, char *out,
		size_t size, size_t *ret_made, struct warren_error *err);
/* Whether the compressed stream is complete. */
bool unpack_is_whole(const struct unpack *u);

#endif /* ARCHIVE_TAR_H */
