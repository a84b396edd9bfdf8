/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox_socket.h - find and connect to a durable sandbox, by a socket and a file named
 * by its id
 *
 *	<sandboxes>/<id>		the socket that its init listens on
 *	<sandboxes>/<id>.state	the state that an engine needs (state_file.h)
 *
 * The socket is bound before init starts, and init listens on it before it sends READY. A
 * refused connection therefore means that init is dead. The state is written after READY;
 * a sandbox without it was never complete. KEEP is sent after the state is written. Until
 * init has received KEEP, it ends with its creator, and says so in WELCOME.
 *
 * An init is identified by the credentials that the kernel stores with its socket, or by
 * its pid and start time from the state file. Both give a pidfd. To end, measure or limit
 * a sandbox, the pid and start time are enough, so these operations do not depend on
 * init.
 */
#ifndef INITCLIENT_SANDBOX_SOCKET_H
#define INITCLIENT_SANDBOX_SOCKET_H

#include "initclient/initclient.h"
#include "initclient/state_file.h"

/* Bind the socket for a future init. */
int sandbox_socket_bind(int sandboxes, const char *id, int *ret_fd,
			struct warren_error *err);
/*
 * Connect; return a descriptor or -errno, see sandbox_socket_nobody(). -EAGAIN: init has
 * not accepted connections for a while.
 */
int sandbox_socket_dial(int sandboxes, const char *id);
/* Like sandbox_socket_dial(), but without blocking. */
int sandbox_socket_dial_now(int sandboxes, const char *id);
/* Return whether a result of sandbox_socket_dial() means that there is no init. */
bool sandbox_socket_nobody(int r);

/*
 * Get the pidfd and the user of the listener at the other end of sandbox->control.
 * -ESRCH: it has ended.
 */
int sandbox_socket_identify(struct initclient_sandbox *sandbox, uid_t *ret_uid,
			    struct warren_error *err);
int sandbox_socket_hello(struct initclient_sandbox *sandbox, struct proto_welcome *ret,
			 struct warren_error *err);
/* Send KEEP, so that init outlives this process. */
int sandbox_socket_keep(struct initclient_sandbox *sandbox, struct warren_error *err);
/*
 * Open another connection, for another process. If the sandbox was opened with find(),
 * this sends no message to init first.
 */
int sandbox_socket_connection(int sandboxes, struct initclient_sandbox *sandbox,
			      int *ret_fd, struct warren_error *err);
/*
 * Open this process's connection, sandbox->control. -ESRCH: the sandbox is gone, or was
 * never complete.
 */
int sandbox_socket_open_line(int sandboxes, struct initclient_sandbox *sandbox,
			     struct warren_error *err);

/* alive.c */
/* Record init's pid and start time for the state file. */
void sandbox_socket_note_init(struct initclient_sandbox *sandbox);
/*
 * Find init by that record, without a message to it: set sandbox->pid and sandbox->pidfd,
 * and return its user. -ESRCH: init has ended.
 */
int sandbox_socket_find_init(int sandboxes, struct initclient_sandbox *sandbox,
			     uid_t *ret_uid, struct warren_error *err);
/*
 * Find out which of these inits are alive and durable. All are asked at the same time. An
 * init that does not answer counts as alive; an incomplete sandbox gets a moment to
 * notice that its creator is dead.
 */
#define DOOR_LOOKS_MAX 256

struct sandbox_socket_look {
	char id[ID_LEN + 1];
	bool alive; /* the result */
	bool asked, dying;
	int fd, pidfd;
};
void sandbox_socket_look_at(int sandboxes, struct sandbox_socket_look *look, size_t n);

bool sandbox_socket_has_state(int sandboxes, const char *id);
int sandbox_socket_write_state(int sandboxes, const struct initclient_sandbox *sandbox,
			       const struct state_table *more, struct warren_error *err);
/* Read the state into @sandbox, which must be new. -ENOENT: there is no state file. */
int sandbox_socket_read_state(int sandboxes, const char *id,
			      struct initclient_sandbox *sandbox,
			      const struct state_table *more, struct warren_error *err);
/* Remove the socket and the state file, after everything else. */
void sandbox_socket_remove(int sandboxes, const char *id);

/*
 * Convert NUL-terminated ids, back to back, into one allocated block: pointers, then the
 * strings.
 */
int sandbox_socket_pack_ids(const struct buf *ids, char ***ret_ids,
			    struct warren_error *err);

#endif /* INITCLIENT_SANDBOX_SOCKET_H */
