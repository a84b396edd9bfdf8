/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output_json.h - a response with the output of a command, encoded as the client reads it
 *
 *	{ head "stdout":"...","stderr":"..." tail }
 *
 * As JSON, output can become six times as long, and a client may read slowly. So larger
 * output is read, written and freed piece by piece.
 */
#ifndef API_V1_OUTPUT_JSON_H
#define API_V1_OUTPUT_JSON_H

#include "api/v1/v1.h"
#include "net/loop.h"

/*
 * A response with at most this many bytes of output is built at once and has a
 * Content-Length.
 */
#define PIECES_SMALL (64U << 10)

/*
 * The first member of the call's state. The caller sets the public members and zeroes the
 * rest.
 */
struct pieces {
	struct call *call;
	bool base64;
	/*
	 * Returns the next piece of a stream (0 or 1), borrowed until the next call: 1
	 * (the piece may be empty), 0 at the end, or -errno. -EINPROGRESS: call again
	 * after other work had its turn.
	 */
	int (*next)(struct pieces *p, int stream, const char **ret_data, size_t *ret_n);
	/* Writes the fields after the strings, up to the closing brace. */
	void (*tail)(struct pieces *p, struct buf *out);

	int stream; /* private from here: the current stream; 2: both are written */
	bool opened, blocked;
	char kept[4]; /* an incomplete character, or an incomplete group of three bytes */
	size_t n_kept;
	struct loop_task turn; /* continues after other work had its turn */
};

/*
 * @head: the beginning of the object, before the strings. @size: approximate bytes of
 * output.
 */
void pieces_answer(struct pieces *p, struct buf *head, uint64_t size);
void pieces_done(struct pieces *p);

#endif /* API_V1_OUTPUT_JSON_H */
