/* SPDX-License-Identifier: Apache-2.0 */
/* record.h - a finished request, for the log */
#ifndef API_RECORD_H
#define API_RECORD_H

#include <stdbool.h>
#include <stdint.h>

struct api_record {
	const char *request_id, *method;
	const char *path;   /* path without its query */
	const char *tenant; /* "": not authorized */
	int status;         /* 0: the client disconnected before the response */
	bool proxied;       /* a server in a sandbox sent the response */
	uint64_t usec;
	const char *cause; /* reason for a status of 500 or more; "": unknown */
	const char *peer;  /* set for data that is not a valid request; otherwise NULL */
};

#endif /* API_RECORD_H */
