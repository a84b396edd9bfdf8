/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.h - send a file of this machine to the service, or receive one */
#ifndef CLI_CLIENT_TRANSFER_H
#define CLI_CLIENT_TRANSFER_H

#include "base/error.h"

struct request;

struct transfer {
	const char *name; /* "-": stdin or stdout */
	int fd;
	int failure; /* errno of a failed read or write on this machine */
};

/* Send the rest of the file as the body of @request, with this type of content. */
int transfer_send(struct transfer *t, struct request *request, const char *type,
		  struct warren_error *err) MUST_CHECK;
/* Write the response to the file. */
int transfer_receive(struct transfer *t, struct request *request,
		     struct warren_error *err) MUST_CHECK;

#endif /* CLI_CLIENT_TRANSFER_H */
