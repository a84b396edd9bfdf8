/* SPDX-License-Identifier: Apache-2.0 */
/* record.h - a finished request, for the log */
#ifndef API_RECORD_H
#define API_RECORD_H

#include <stdbool.h>
#include <stdint.h>

struct api_record {
	const char *request_id, *method;
	const char *path;   /* without its query */
	const char *tenant; /* "": not authorized */
	int status;         /* 0: the client went before it was answered */
	bool proxied;       /* by a server in a sandbox, whose words those are */
	uint64_t usec;
	const char *cause; /* of a status from 500 on; "": not known */
	const char *peer;  /* of what never became a request; else NULL */
};

#endif /* API_RECORD_H */
