/* SPDX-License-Identifier: Apache-2.0 */
/*
 * untar.h - unpack an archive into a directory of a sandbox while it arrives
 *
 * The directory stays open, and init resolves every name of the archive below it: a link
 * that leads out of it is an error, no matter what created the link, and when.
 */
#ifndef SERVICE_FILES_UNTAR_H
#define SERVICE_FILES_UNTAR_H

#include "service/files/files.h"

struct untar;

struct untar_options {
	int dir;     /* taken */
	bool owners; /* keep the owners of the archive */
	bool zip;    /* a zip archive; otherwise tar, compressed or not */
	/* Called when all data so far is processed, and more can be fed. */
	void (*more)(void *ctx);
	void (*end)(void *ctx, uint64_t entries, uint64_t bytes,
		    const struct warren_error *err);
	void *ctx;
};

struct untar *untar_new(struct files *f, const struct untar_options *options);
struct untar *untar_free(struct untar *u);
/*
 * Feed @n bytes, which are copied; 0: the end of the archive. Then wait for more() or
 * end().
 */
void untar_feed(struct untar *u, const char *data, size_t n);

#endif /* SERVICE_FILES_UNTAR_H */
