/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state_file.h - the state of a durable sandbox that its engine needs, as a text file
 *
 * All other state is in kernel objects and in init. The text is a list of "key=value",
 * each terminated by a NUL (values may contain any other byte). The first entry, the
 * version of the format, and the last have fixed positions; the others may be in any
 * order. The parser is strict: an unknown, missing or duplicate key is an error. Another
 * version is an error too, so that a program refuses the file of a newer program.
 */
#ifndef INITCLIENT_STATE_FILE_H
#define INITCLIENT_STATE_FILE_H

#include "base/buf.h"
#include "base/error.h"

#define STATE_VERSION 1
#define STATE_MAX     (8U << 20) /* the environment alone may need half of it */

struct initclient_sandbox;

enum state_kind {
	STATE_NUMBER32,
	STATE_NUMBER64,
	STATE_FLAG,
	STATE_OPTION,  /* a flag that is written only if it is set */
	STATE_MAYBE32, /* a number that is written only if it is not 0 */
	STATE_MAYBE64,
	STATE_TEXT,       /* an allocated char * */
	STATE_MAYBE_TEXT, /* the same, but written only if it is not NULL */
	STATE_LIST,       /* any number of texts */
	STATE_HOME,       /* `home` of struct initclient_user */
	STATE_GROUP,      /* one of the user's groups */
	STATE_FORCED,     /* "on NAME DETAIL" or "off NAME DETAIL" */
	STATE_ID,
};

struct state_field {
	const char *key;
	enum state_kind kind;
	size_t at; /* offset in the sandbox */
};

/* Additional fields of a backend; NULL: none. */
struct state_table {
	const struct state_field *fields;
	size_t n;
};

#define STATE_FIELDS_MAX 40 /* maximum in both tables together */

void state_encode(const struct initclient_sandbox *sandbox,
		  const struct state_table *more, struct buf *out);
/*
 * Parse @text into @sandbox, which must be new. The sandbox then owns @text and points
 * into it.
 */
int state_parse(struct initclient_sandbox *sandbox, const struct state_table *more,
		char *text, size_t size, struct warren_error *err);

#endif /* INITCLIENT_STATE_FILE_H */
