/* SPDX-License-Identifier: Apache-2.0 */
/*
 * multipart.h - a multipart/form-data body, parsed as it arrives (RFC 7578)
 *
 * Pure functions on bytes. The parser refuses a malformed body: a part without a name, a
 * name that is too long, a missing end.
 */
#ifndef API_MULTIPART_H
#define API_MULTIPART_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define MULTIPART_BOUNDARY_MAX 70 /* limit of RFC 2046 */
#define MULTIPART_HEAD_MAX     8192
#define MULTIPART_PARTS_MAX    16
#define MULTIPART_FILE_MAX     4096

enum multipart_event {
	MULTIPART_MORE, /* all bytes were used */
	MULTIPART_PART, /* a part begins: m->name, m->is_file */
	MULTIPART_DATA, /* data of the part: *ret_data, *ret_size */
	MULTIPART_END,  /* the part ends */
	MULTIPART_OVER, /* the body ends; further bytes are ignored */
};

struct multipart {
	enum {
		MULTIPART_AT_START, /* before the first boundary */
		MULTIPART_AT_HEAD,
		MULTIPART_AT_DATA,
		/* After a boundary. */
		MULTIPART_AT_TAIL,
		MULTIPART_AT_OVER,
	} state;
	char mark[MULTIPART_BOUNDARY_MAX + 8]; /* "\r\n--boundary" */
	size_t mark_len;
	size_t matched; /* matched bytes of the boundary, held back */
	size_t assumed; /* how many of them are a line end that the body does not have */
	char head[MULTIPART_HEAD_MAX];
	size_t have; /* bytes of the head, or of the text after a boundary */
	unsigned parts;
	unsigned parts_max; /* 0: MULTIPART_PARTS_MAX */
	char name[64];
	bool is_file;
	char file[MULTIPART_FILE_MAX]; /* its file name, as the client wrote it */
};

/* Initialize from the Content-Type of a request. -EINVAL: it is not form data. */
int multipart_init(struct multipart *m, const char *content_type,
		   struct warren_error *err);
/*
 * Parse the @n bytes at @data up to the next event; *@ret_used of them were used.
 * *@ret_data points into @data, or into the mark if bytes that were held back turned out
 * not to be a boundary. Returns an enum multipart_event or -EBADMSG.
 */
int multipart_take(struct multipart *m, const char *data, size_t n, size_t *ret_used,
		   const char **ret_data, size_t *ret_size, struct warren_error *err);
/* Return whether the body may end here. */
bool multipart_is_whole(const struct multipart *m);

#endif /* API_MULTIPART_H */
