/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dir_cache.h - remember which names of interest the directories of a tree have
 *
 * A directory with the same inode, times of modification and change has the same entries,
 * so one stat(2) replaces reading it. A directory that changed shortly before it was read
 * is not trusted, because its next change may have the same time; neither are
 * filesystems that others can change over a network.
 */
#ifndef BASE_DIR_CACHE_H
#define BASE_DIR_CACHE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"

/* Names, one after the other, each with its NUL. */
struct dir_names {
	const char *text;
	size_t n;
};

#define DIR_STAMP 6 /* inode, two times, device */

/* A directory that was read before. */
struct dir_known {
	const char *path;
	uint64_t stamp[DIR_STAMP];
	struct dir_names files, dirs; /* its files of interest, and directories */
	const char *raw;              /* the entry in the file */
	size_t raw_size;
};

struct dir_cache {
	const char *path;   /* the file; NULL: there is no cache */
	const char *header; /* the rules by which names were chosen */
	char *text;
	struct dir_known *v; /* in the order of the file, until one is not found there */
	size_t n, next;
	bool sorted;     /* .v is sorted by path */
	uint64_t now_ns; /* the start of the scan */
	struct buf out;  /* the next contents of the file */
	bool changed;
};

/* Do the times of directories below @dir show every change? If not, use no cache. */
bool dir_cache_trusts(int dir);
/*
 * Read the file @path in the directory @at; one that is missing or damaged is the same as
 * an empty one. @path (NULL: no cache) and @header must live as long as @c.
 */
void dir_cache_load(struct dir_cache *c, int at, const char *path, const char *header);
/* Find a directory that has not changed since; NULL: read it. Valid until the next call.
 */
const struct dir_known *dir_cache_find(struct dir_cache *c, const char *path,
				       const struct stat *st);
/* Add a directory that was found to the next contents, unchanged. */
void dir_cache_keep(struct dir_cache *c, const struct dir_known *k);
/* Add a directory that was read to the next contents. */
void dir_cache_add(struct dir_cache *c, const char *path, const struct stat *st,
		   struct dir_names files, struct dir_names dirs);
/*
 * Write the file if something changed. false: it may not have what was found, and the
 * next scan is slower.
 */
bool dir_cache_save(struct dir_cache *c, int at);
/* Read a file with any rules, only to ask for inodes. */
void dir_cache_read(struct dir_cache *c, int at, const char *path);
/* The inode that the directory had; false: it was not there. */
bool dir_cache_inode(struct dir_cache *c, const char *path, uint64_t *ret);
void dir_cache_done(struct dir_cache *c);

/* For each name of a list: struct dir_names @list, const char *@name. */
#define FOR_EACH_DIR_NAME(list, name)                                       \
	for (size_t name##_i = 0;                                           \
	     name##_i < (list).n &&                                         \
	     ((name) = name##_i ? (name) + strlen(name) + 1 : (list).text); \
	     name##_i++)

#endif /* BASE_DIR_CACHE_H */
