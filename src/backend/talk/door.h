/* SPDX-License-Identifier: Apache-2.0 */
/*
 * door.h - how a durable sandbox is found: a socket and a file in a directory, named by its id
 *
 *	<boxes>/<id>		the socket that its init listens on
 *	<boxes>/<id>.state	what an engine must know of it (state.h)
 *
 * The socket is bound before init starts, and init listens on it before it says
 * READY; so a refused connection is a dead init. The state is written after READY;
 * without it a sandbox was never complete. KEEP comes after the state: until init has
 * it, init ends with its maker, and says so (WELCOME).
 *
 * An init is known by the credentials that the kernel keeps with its socket, as a pidfd,
 * never by a number in a file.
 */
#ifndef TALK_DOOR_H
#define TALK_DOOR_H

#include "backend/talk/state.h"
#include "backend/talk/talk.h"

/* The socket for an init that is to be, in place. */
int door_bind(int boxes, const char *id, int *ret_fd, struct warren_error *err);
/* A connection, or -errno; see door_nobody(). */
int door_dial(int boxes, const char *id);
/* Does what door_dial() returned mean that no init is there? */
bool door_nobody(int r);

/* Who listens at the other end of box->control: its pidfd, and its user. -ESRCH: nobody. */
int door_identify(struct talk_box *box, uid_t *ret_uid, struct warren_error *err);
int door_hello(struct talk_box *box, struct proto_welcome *ret, struct warren_error *err);
/* From here on its init outlives us. */
int door_keep(struct talk_box *box, struct warren_error *err);
/* Another connection, for another process. */
int door_connection(int boxes, struct talk_box *box, int *ret_fd,
		    struct warren_error *err);
/* Is init there to stay? Waits for what is not complete to see that its maker is dead. */
bool door_is_alive(int boxes, const char *id);

bool door_has_state(int boxes, const char *id);
int door_write_state(int boxes, const struct talk_box *box,
		     const struct state_table *more, struct warren_error *err);
/* Into @box, which must be new. -ENOENT: there is none. */
int door_read_state(int boxes, const char *id, struct talk_box *box,
		    const struct state_table *more, struct warren_error *err);
/* The names, after all that they stand for. */
void door_remove(int boxes, const char *id);

/* Ids back to back, each with its NUL, as one block: pointers, then what they point to. */
int door_pack_ids(const struct buf *ids, char ***ret_ids, struct warren_error *err);

#endif /* TALK_DOOR_H */
