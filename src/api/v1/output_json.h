/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output_json.h - an answer with the output of a command, encoded as the client reads it
 *
 *	{ head "stdout":"...","stderr":"..." tail }
 *
 * As JSON, output can be six times as long as it is, and a client may take its time: so
 * what is more than a little is read, written and forgotten piece by piece.
 */
#ifndef API_V1_OUTPUT_JSON_H
#define API_V1_OUTPUT_JSON_H

#include "api/v1/v1.h"
#include "net/loop.h"

#define PIECES_SMALL \
	(64U << 10) /* of output: an answer is made at once, and has a length */

/* The first member of the call's state; zeroed but for what is asked for here. */
struct pieces {
	struct call *call;
	bool base64;
	/*
	 * What follows of a stream, 0 or 1, borrowed until the next call: 1 (perhaps with
	 * nothing yet), 0 at its end, or -errno; -EINPROGRESS: not before others had
	 * their turn.
	 */
	int (*next)(struct pieces *p, int stream, const char **ret_data, size_t *ret_n);
	/* What follows the strings, up to the closing brace. */
	void (*tail)(struct pieces *p, struct buf *out);

	int stream; /* private from here on: which one is written; 2: both were */
	bool opened, blocked;
	char kept[4]; /* of a character, or of three bytes, whose end is still to come */
	size_t n_kept;
	struct loop_task turn; /* others have theirs first */
};

/*
 * @head: the object as far as it goes before the strings. @size: bytes of output, about.
 */
void pieces_answer(struct pieces *p, struct buf *head, uint64_t size);
void pieces_done(struct pieces *p);

#endif /* API_V1_OUTPUT_JSON_H */
