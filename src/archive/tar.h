/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tar.h - write and strictly read tar archives as a stream, with compression
 *
 * Pure functions on bytes. The reader accepts ustar with the pax and GNU extensions for
 * long names and large numbers. It refuses a wrong checksum, an absolute name or one with
 * "..", a sparse file, and an archive that ends within an entry.
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

/* An entry as it is written; names are bytes of any length. */
struct tar_header {
	const char *name; /* a directory's ends with a slash */
	const char *link; /* "": none */
	char type;        /* '0' file, '1' hard link, '2' symbolic link, '5' directory,
			     '6' pipe */
	uint32_t mode, uid, gid;
	uint64_t size;
	int64_t mtime;
	uint32_t mtime_nsec;
};
/*
 * Append a header. @pax contains records of tar_put_record() for this entry, if any, and
 * is used to build the records for values that do not fit.
 */
void tar_put_header(struct buf *out, const struct tar_header *h, struct buf *pax);
/* Append the record of an extended header: @key has no '=', @value has @size bytes. */
void tar_put_record(struct buf *pax, const char *key, const void *value, size_t size);
/* Append the header of an entry; for a file, @size bytes of data follow. */
void tar_put(struct buf *out, const char *name, const struct proto_entry *is,
	     const char *link, uint64_t size);
/* Append the zeros that pad @size bytes of data to full blocks. */
void tar_pad(struct buf *out, uint64_t size);
void tar_end(struct buf *out);

/* --------------------------------------------------------------------- reading */

enum tar_type {
	TAR_FILE,
	TAR_DIRECTORY,
	TAR_SYMLINK,
	TAR_LINK, /* hard link to an earlier entry */
};

struct tar_entry {
	enum tar_type type;
	char name[4096]; /* relative and normalised; "": the directory itself */
	char link[4096]; /* TAR_LINK: like `name`; TAR_SYMLINK: unchanged */
	uint64_t size;
	uint32_t mode, uid, gid;
	int64_t mtime;
};

struct tar_reader {
	enum {
		TAR_AT_HEADER,
		TAR_AT_EXTRA, /* data of an extended header */
		TAR_AT_DATA,
		TAR_AT_PAD,
		TAR_AT_END,
	} state;
	struct tar_entry entry;
	char block[TAR_BLOCK];
	size_t have;        /* bytes in `block` */
	uint64_t left, pad; /* bytes left of the data and of its padding */
	char extra_type;    /* 'x', 'g', 'L', 'K' */
	struct buf extra;
	/* Values from extended headers, for the next entry. */
	bool has_name, has_link, has_size, has_uid, has_gid, has_mtime;
	char name[4096], link[4096];
	uint64_t size;
	uint32_t uid, gid;
	int64_t mtime;
	unsigned zeros; /* consecutive blocks of zeros */
};

enum tar_event {
	TAR_MORE,  /* all input is used */
	TAR_ENTRY, /* r->entry is filled in; its data follow */
	TAR_DATA,
	TAR_ENTRY_END,
	TAR_OVER, /* end of the archive; the rest is ignored */
};

void tar_init(struct tar_reader *r);
void tar_done(struct tar_reader *r);
/*
 * Read some of the @n bytes at @data and set *@ret_used to the number of bytes read. If
 * the result is TAR_DATA, these bytes are file data. -EBADMSG if the archive is damaged,
 * -ENODEV for a device or pipe, -EINVAL for a name that leads out of the directory.
 */
int tar_take(struct tar_reader *r, const char *data, size_t n, size_t *ret_used,
	     struct warren_error *err);
/* Return whether the archive may end here. */
bool tar_is_whole(const struct tar_reader *r);

/* ----------------------------------------------------------------- compression */

enum pack_kind {
	PACK_NONE,
	PACK_GZIP,
	PACK_ZSTD,
	PACK_ZIP, /* read only; the output is a tar archive */
};

struct pack;

int pack_new(enum pack_kind kind, struct pack **ret, struct warren_error *err);
struct pack *pack_free(struct pack *p);
/*
 * Compress @n more bytes and append the output to @out; @end: these are the last bytes.
 */
int pack_put(struct pack *p, const void *data, size_t n, bool end, struct buf *out,
	     struct warren_error *err);

struct unpack;

/* Get the compression of a stream that begins with these @n bytes; 4 bytes are enough. */
enum pack_kind unpack_kind(const char *data, size_t n);
/*
 * Return whether a file that begins with these @n bytes, of which ARCHIVE_HEAD are
 * enough, is one that ADD of a Dockerfile unpacks.
 */
#define ARCHIVE_HEAD 512
bool archive_is_known(const char *data, size_t n);
int unpack_new(enum pack_kind kind, struct unpack **ret, struct warren_error *err);
struct unpack *unpack_free(struct unpack *u);
/*
 * Decompress some of the @n bytes at @data into @out: *@ret_used bytes of input become
 * *@ret_made bytes of output. If both are 0, the input is exhausted.
 */
int unpack_take(struct unpack *u, const char *data, size_t n, size_t *ret_used, char *out,
		size_t size, size_t *ret_made, struct warren_error *err);
/* Return whether the compressed stream is complete. */
bool unpack_is_whole(const struct unpack *u);

#endif /* ARCHIVE_TAR_H */
