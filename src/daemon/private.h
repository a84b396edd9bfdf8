/* SPDX-License-Identifier: Apache-2.0 */
/*
 * private.h - a service for one client, which ends with the client and leaves nothing
 * behind
 *
 * If a command needs a service and none runs, it starts `warren serve --private FD`
 * (cli/client/private_service.c). FD is one end of a socket pair. The service sends one
 * message when it is ready or cannot start. It stops when the client's end is closed, and
 * so also when the client is killed.
 *
 *	<state_dir>/private/<n>/	locked by the service that uses it
 *	<state_dir>/private/<n>/sock	its socket
 *	<state_dir>/private/<n>/serve/	its database and journals
 *
 * A private service shares images and id ranges with all other engines of its user: it
 * has their state and run directories, and its engine has the name "private-<n>". If it
 * is killed, the next private service takes its directory and thereby its engine name,
 * starts with an empty database, and so destroys the sandboxes that were left
 * (service/core/restore.c).
 */
#ifndef DAEMON_PRIVATE_H
#define DAEMON_PRIVATE_H

#include "base/error.h"
#include "config/config.h"

struct private_service;

/* Check whether @text is the number of a descriptor that is a socket. */
int private_parse(const char *text, int *ret_fd, struct warren_error *err) MUST_CHECK;
/* Take a directory, and change @c so that the service uses it. */
int private_open(struct config *c, struct private_service **ret,
		 struct warren_error *err) MUST_CHECK;
/* Remove everything of the service, after its last process has ended. Accepts NULL. */
void private_close(struct private_service *p, const struct config *c);

const char *private_engine(const struct private_service *p);
/* Get the directory of the api's data. */
const char *private_dir(const struct private_service *p);

/* Tell the client on @fd that the service is ready, or why it is not. */
void private_tell_ready(int fd, const struct private_service *p);
void private_tell_error(int fd, const struct warren_error *err);

#endif /* DAEMON_PRIVATE_H */
