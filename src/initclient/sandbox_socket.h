/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox_socket.h - how to find a durable sandbox: a socket and a file, named by its id
 *
 *	<sandboxes>/<id>		the socket that its init listens on
 *	<sandboxes>/<id>.state	what an engine must know of it (state_file.h)
 *
 * The socket is bound before init starts, and init listens on it before it says
 * READY; so a refused connection is a dead init. The state is written after READY;
 * without it a sandbox was never complete. KEEP is sent after the state is written: until
 * init has received it, init ends with its creator, and says so (WELCOME).
 *
 * An init is known by the credentials that the kernel keeps with its socket, or by its
 * number together with its start time, which the state has; as a pidfd in either case.
 * To end, measure or limit a sandbox, the latter is enough, and nothing depends on what
 * init does.
 */
#ifndef INITCLIENT_SANDBOX_SOCKET_H
#define INITCLIENT_SANDBOX_SOCKET_H

#include "initclient/initclient.h"
#include "initclient/state_file.h"

/* Bind the socket for a future init. */
int sandbox_socket_bind(int sandboxes, const char *id, int *ret_fd,
			struct warren_error *err);
/*
 * A connection, or -errno; see sandbox_socket_nobody(). -EAGAIN: init takes none, for a
 * while by now.
 */
int sandbox_socket_dial(int sandboxes, const char *id);
/* The same without waiting. */
int sandbox_socket_dial_now(int sandboxes, const char *id);
/* Whether a result of sandbox_socket_dial() means that there is no init. */
bool sandbox_socket_nobody(int r);

/*
 * The listener at the other end of sandbox->control: its pidfd, and its user. -ESRCH:
 * none.
 */
int sandbox_socket_identify(struct initclient_sandbox *sandbox, uid_t *ret_uid,
			    struct warren_error *err);
int sandbox_socket_hello(struct initclient_sandbox *sandbox, struct proto_welcome *ret,
			 struct warren_error *err);
/* From here on its init outlives this process. */
int sandbox_socket_keep(struct initclient_sandbox *sandbox, struct warren_error *err);
/*
 * Another connection, for another process; of one that was only found: without having
 * asked it.
 */
int sandbox_socket_connection(int sandboxes, struct initclient_sandbox *sandbox,
			      int *ret_fd, struct warren_error *err);
/*
 * A connection of our own, sandbox->control. -ESRCH: it is gone, or was never complete.
 */
int sandbox_socket_open_line(int sandboxes, struct initclient_sandbox *sandbox,
			     struct warren_error *err);

/* alive.c */
/* Which process init is, for the state. */
void door_note_init(struct initclient_sandbox *sandbox);
/*
 * By that note: sandbox->pid, sandbox->pidfd, and its user. Nothing is asked of it.
 * -ESRCH: it is gone.
 */
int door_find_init(int sandboxes, struct initclient_sandbox *sandbox, uid_t *ret_uid,
		   struct warren_error *err);
/*
 * Which of these inits are there to stay? All are asked at the same time. One that is
 * silent is alive; what is not complete is given a moment to see that its maker is dead.
 */
#define DOOR_LOOKS_MAX 256

struct sandbox_socket_look {
	char id[ID_LEN + 1];
	bool alive; /* the answer */
	bool asked, dying;
	int fd, pidfd;
};
void door_look_at(int sandboxes, struct sandbox_socket_look *look, size_t n);

bool sandbox_socket_has_state(int sandboxes, const char *id);
int sandbox_socket_write_state(int sandboxes, const struct initclient_sandbox *sandbox,
			       const struct state_table *more, struct warren_error *err);
/* Into @sandbox, which must be new. -ENOENT: there is none. */
int sandbox_socket_read_state(int sandboxes, const char *id,
			      struct initclient_sandbox *sandbox,
			      const struct state_table *more, struct warren_error *err);
/* The names, after all that they stand for. */
void sandbox_socket_remove(int sandboxes, const char *id);

/*
 * Ids back to back, each with its NUL, as one block: pointers, then what they point to.
 */
int sandbox_socket_pack_ids(const struct buf *ids, char ***ret_ids,
			    struct warren_error *err);

#endif /* INITCLIENT_SANDBOX_SOCKET_H */
