/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.h - carry out a request to the service about works
 *
 * The warden starts this program for a client of the service (warden/work.c):
 *
 *	request VERB [OPTIONS] -- [WORK]
 *
 * Standard input has the patch or the paths, of the size that the options state. Standard
 * output gets one line of JSON, and then the body of the answer:
 *
 *	{"status":0,"size":BYTES}
 *	{"status":1,"size":BYTES}				changes are in conflict
 *	{"status":125,"errno":N,"work":false,"message":"..."}	nothing was changed
 *
 * "work" is true if the work could not be opened. A request that only reads ends when
 * its reader is gone; one that changes something is always completed.
 */
#ifndef CLI_WORK_REQUEST_H
#define CLI_WORK_REQUEST_H

/* argv[0] of such a call. */
#define REQUEST_WORD "request"

int request_main(int argc, char **argv);

#endif /* CLI_WORK_REQUEST_H */
