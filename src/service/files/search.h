/* SPDX-License-Identifier: Apache-2.0 */
/* search.h - search a tree of a sandbox by name and by content */
#ifndef SERVICE_FILES_SEARCH_H
#define SERVICE_FILES_SEARCH_H

#include "regex/regex.h"
#include "service/files/files.h"

#define SEARCH_LINE_MAX 16384 /* a longer line is searched in parts of this size */

struct search_match {
	const char *path;
	uint32_t mode;
	uint64_t line, column; /* from 1; 0: no search by content */
	const char *text;
	size_t size;
};

struct search_options {
	const char *path;
	struct pattern *name, *content; /* NULL: any; the search then owns them */
	bool whole_path;                /* match the name against the path below `path` */
	uint32_t type;                  /* S_IFREG, ...; 0: any */
	unsigned depth;
	bool hidden;
	uint64_t max_matches, max_file_size, timeout_ms;
	void (*match)(void *ctx, const struct search_match *m);
	void (*end)(void *ctx, bool truncated, bool timed_out,
		    const struct warren_error *err);
	void *ctx;
};

struct search;

/* *@ret is NULL when end() has been called. */
void search_start(struct files *f, const struct search_options *options,
		  struct search **ret);
struct search *search_free(struct search *s);

#endif /* SERVICE_FILES_SEARCH_H */
