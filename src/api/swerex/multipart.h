/* SPDX-License-Identifier: Apache-2.0 */
/*
 * multipart.h - a multipart/form-data body, parsed as it arrives (RFC 7578)
 *
 * Pure functions on bytes. It is right or it is refused: a part without a name, a name
 * twice the size of any of ours, an end in the middle.
 */
#ifndef API_SWEREX_MULTIPART_H
#define API_SWEREX_MULTIPART_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define MULTIPART_BOUNDARY_MAX 70 /* as RFC 2046 has it */
#define MULTIPART_HEAD_MAX     8192
#define MULTIPART_PARTS_MAX    16

enum multipart_event {
	MULTIPART_MORE, /* all was taken */
	MULTIPART_PART, /* one begins: m->name, m->is_file */
	MULTIPART_DATA, /* of it: *ret_data, *ret_size */
	MULTIPART_END,  /* of it */
	MULTIPART_OVER, /* what follows means nothing */
};

struct multipart {
	enum {
		MULTIPART_AT_START, /* before the first boundary */
		MULTIPART_AT_HEAD,
		MULTIPART_AT_DATA,
		MULTIPART_AT_TAIL, /* behind a boundary */
		MULTIPART_AT_OVER,
	} state;
	char mark[MULTIPART_BOUNDARY_MAX + 8]; /* "\r\n--boundary" */
	size_t mark_len;
	size_t matched; /* of the mark, held back */
	size_t assumed; /* of that: a line's end that is not part of the data */
	char head[MULTIPART_HEAD_MAX];
	size_t have; /* of the head, or of what follows a boundary */
	unsigned parts;
	char name[64];
	bool is_file;
};

/* From the Content-Type of a request. -EINVAL: it is none. */
int multipart_init(struct multipart *m, const char *content_type,
		   struct warren_error *err);
/*
 * Take from the @n bytes at @data: *@ret_used of them. Data is theirs, or the mark's own
 * that turned out to be none. -EBADMSG.
 */
int multipart_take(struct multipart *m, const char *data, size_t n, size_t *ret_used,
		   const char **ret_data, size_t *ret_size, struct warren_error *err);
/* Whether it may end here. */
bool multipart_is_whole(const struct multipart *m);

#endif /* API_SWEREX_MULTIPART_H */
