/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state_file.h - what an engine must remember about a durable sandbox, as a text file
 *
 * Everything else is in the kernel's objects and in init. The text is a list
 * of "key=value", each ended by a NUL (values may hold anything else), in any
 * order but for the first, which names the format's version, and the last.
 * Read strictly: a key that is unknown, missing or there twice is an error, as
 * is a version other than ours, so that a binary refuses what a newer one wrote.
 */
#ifndef INITCLIENT_STATE_FILE_H
#define INITCLIENT_STATE_FILE_H

#include "base/buf.h"
#include "base/error.h"

#define STATE_VERSION 1
#define STATE_MAX     (8U << 20) /* the environment alone may have half of it */

struct initclient_sandbox;

enum state_kind {
	STATE_NUMBER32,
	STATE_NUMBER64,
	STATE_FLAG,
	STATE_OPTION,  /* a flag that is written when it is set */
	STATE_MAYBE32, /* a number that is written when it is not 0 */
	STATE_MAYBE64,
	STATE_TEXT,   /* a char * of its own */
	STATE_LIST,   /* any number of them */
	STATE_HOME,   /* the array in struct initclient_user */
	STATE_GROUP,  /* one of its groups */
	STATE_FORCED, /* "on NAME DETAIL" or "off NAME DETAIL" */
	STATE_ID,
};

struct state_field {
	const char *key;
	enum state_kind kind;
	size_t at; /* in the sandbox */
};

/* What a backend must remember beside what all of them do; NULL where there is none. */
struct state_table {
	const struct state_field *fields;
	size_t n;
};

#define STATE_FIELDS_MAX 40 /* in both */

void state_encode(const struct initclient_sandbox *sandbox,
		  const struct state_table *more, struct buf *out);
/*
 * Into @sandbox, which must be new. @text becomes the sandbox's, which has pointers into
 * it.
 */
int state_parse(struct initclient_sandbox *sandbox, const struct state_table *more,
		char *text, size_t size, struct warren_error *err);

#endif /* INITCLIENT_STATE_FILE_H */
