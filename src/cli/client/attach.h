/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach.h - connect the caller's streams and signals to a command in a sandbox
 *
 * The command's output goes to stdout and stderr; stdin and signals go to the command;
 * its terminal follows the size of the caller's. If the connection breaks (the service
 * was restarted), the client connects again and continues with the next byte of output.
 */
#ifndef CLI_CLIENT_ATTACH_H
#define CLI_CLIENT_ATTACH_H

#include "cli/client/client.h"

struct splice;

struct attach {
	struct client *client;
	const char *command; /* the warren command, as the prefix of errors */
	const char *sandbox, *exec;
	uint64_t from;      /* cursor to begin at */
	const char *stream; /* "stdout", "stderr"; NULL: both */
	bool in;            /* forward stdin */
	/* The command has a terminal: forward the size of the caller's. */
	bool tty;
	bool watch;          /* only observe: no signals, no back-pressure */
	bool once;           /* stop at the end of the existing output */
	bool quiet;          /* do not report gaps */
	struct splice *keep; /* captures stdout and stderr; NULL: write them */
};

/*
 * Run until the command has ended, and store its result in *@ret_result. With @once,
 * return even if it has not; *@ret_ended (may be NULL) says whether it has.
 */
int attach_run(const struct attach *a, struct warren_result *ret_result, bool *ret_ended,
	       struct warren_error *err) MUST_CHECK;

/* Convert a result from the API's JSON. */
void result_of(const json_t *from, struct warren_result *ret);

/*
 * Get the exit status for a command that could not be started: 127, 126, or
 * STATUS_FAILED.
 */
int start_status(const struct client *c);

#endif /* CLI_CLIENT_ATTACH_H */
