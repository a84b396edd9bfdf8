/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach.h - a command in a sandbox as if it ran here
 *
 * Its output goes to our stdout and stderr, our stdin to its, signals are passed
 * on, and a terminal follows ours. A connection that breaks off (the service was
 * restarted) is made again, and the output goes on where it was.
 */
#ifndef CLI_CLIENT_ATTACH_H
#define CLI_CLIENT_ATTACH_H

#include "cli/client/client.h"

struct splice;

struct attach {
	struct client *client;
	const char *command; /* of ours, as errors begin */
	const char *sandbox, *exec;
	uint64_t from;       /* cursor to begin at */
	const char *stream;  /* "stdout", "stderr"; NULL: both */
	bool in;             /* pass stdin on */
	bool tty;            /* it has a terminal: follow the size of ours */
	bool watch;          /* only look: no signal is passed on, no back-pressure */
	bool once;           /* what is there, without waiting for more */
	bool quiet;          /* nothing of gaps */
	struct splice *keep; /* stdout and stderr, to be kept and not written; NULL */
};

/*
 * Until the command ended: *@ret_result tells how. With @once also when it did
 * not; *@ret_ended tells (NULL: not wanted).
 */
int attach_run(const struct attach *a, struct warren_result *ret_result, bool *ret_ended,
	       struct warren_error *err) MUST_CHECK;

/* A result as the API has it. */
void result_of(const json_t *from, struct warren_result *ret);

/* The status when a command could not be started: 127, 126, or ours. */
int start_status(const struct client *c);

#endif /* CLI_CLIENT_ATTACH_H */
