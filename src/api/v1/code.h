/* SPDX-License-Identifier: Apache-2.0 */
/* code.h - requests to run code: their state and their responses */
#ifndef API_V1_CODE_H
#define API_V1_CODE_H

#include "api/code.h"
#include "api/v1/v1.h"
#include "net/loop.h"

/* Base64 that becomes the content of a file, or stdin. */
struct code_encoded {
	const char *text;
	size_t n, at; /* number of characters, and how many are decoded */
	char *data;
	size_t size;
	const void **to; /* where to store the result */
	size_t *to_size;
};

/* A request as the planner reads it, with the memory that it needs. */
struct code_wanted {
	struct code_request request;
	const char **args, **artifacts;
	char **env;
	struct code_file *files;
	struct code_encoded *encoded;
	size_t n_encoded, n_decoded;
};

/* Read a RunCode; its fields are borrowed from @body. Call code_wanted_decode() next. */
int code_wanted_read(const struct body *body, struct code_wanted *w,
		     struct api_error *err) MUST_CHECK;
/*
 * Decode a slice of the base64 data, because megabytes take long. Returns whether there
 * is more.
 */
bool code_wanted_decode(struct code_wanted *w);
void code_wanted_done(struct code_wanted *w);

/*
 * A result as JSON, written in slices: the JSON can be six times as long as the output,
 * and a client may read slowly.
 */
struct code_answer {
	const struct code_result *result;
	bool no_output; /* omit stdout and stderr */
	size_t part;    /* this and the following fields are private */
	size_t at;
	bool opened, base64;
};

/* Write the next slice. Returns 1 if there is more, otherwise 0. */
int code_answer_next(struct code_answer *a, struct buf *out);
/* The approximate size of a response before it is encoded. */
size_t code_answer_size(const struct code_answer *a);

/* The state of a call. */
struct code_call {
	struct call *call;
	struct code_wanted wanted;
	struct code_run *run;
	struct code_answer answer;
	struct loop_task turn;
	bool decoding, answering, blocked, begun;
	bool broken; /* an event was lost: the response must not look complete */
	/* For a stream: */
	bool stream, sse;
	struct loop_timer *timer;
	/* The first bytes of a character that is not complete yet. */
	struct {
		char data[4];
		size_t n;
	} kept[2];
};

/* code_stream.c */
void code_stream_started(void *ctx);
bool code_stream_output(void *ctx, int stream, const char *data, size_t n);
void code_stream_done(struct code_call *k, const struct code_result *result,
		      const struct warren_error *err);
/* code.c: send more of the response. */
void code_call_send(struct code_call *k);

#endif /* API_V1_CODE_H */
