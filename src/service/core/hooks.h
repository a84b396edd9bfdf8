/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hooks.h - how a room takes part in the life of the service and of each sandbox
 *
 * The core has sandboxes, and knows nothing of what goes on in them: execs, sessions and
 * the use of files are rooms of their own, which use the core and are never used by it.
 * Each room has one struct service_room; service/rooms.c lists them, and the core calls
 * their hooks in that order, so a room finds done what the rooms before it do. Any hook
 * may be NULL.
 *
 * A room keeps what it has for the service and for each sandbox in memory that the core
 * allocates with them, all zeros, and frees after gone() and close().
 */
#ifndef SERVICE_CORE_HOOKS_H
#define SERVICE_CORE_HOOKS_H

#include "service/core/service.h"

struct proto_exited;

/* Where the core keeps a room's memory. */
enum service_room_number {
	ROOM_EXEC,
	ROOM_SESSION,
	ROOM_FILES,
	ROOM_MAX,
};

struct service_room {
	enum service_room_number number;
	size_t service_size, sandbox_size; /* of its memory for each */

	/* The service starts, and ends. close() follows an open() that failed, too. */
	int (*open)(struct service *s, const struct service_options *options,
		    struct warren_error *err);
	void (*close)(struct service *s);
	/* Look for what was left behind, at the start and whenever gc.c runs. */
	void (*gc)(struct service *s);
	/* service.n_unsaved is not 0: try again to write those results. */
	void (*save)(struct service *s);

	/* It was just created, and runs. */
	void (*created)(struct sandbox *sandbox);
	/*
	 * A sandbox of a former process is connected to: find what the store has for it.
	 */
	void (*restore)(struct sandbox *sandbox);
	/* There is a connection to its init. @done is called once, with 0. */
	void (*connected)(struct sandbox *sandbox, service_done_fn done, void *ctx);
	/* The connection broke, and may be opened again. */
	void (*disconnected)(struct sandbox *sandbox);
	/* Its init says that an exec ended. Whether that was one of this room's. */
	bool (*exited)(struct sandbox *sandbox, const struct proto_exited *msg);
	/* Its init is gone: nobody will tell how what ran in it ended. */
	void (*lost)(struct sandbox *sandbox);
	/* Its rows are about to be deleted: remove what is kept beside the store. */
	void (*forget)(struct sandbox *sandbox);
	/* It is about to be freed. */
	void (*gone)(struct sandbox *sandbox);
	/* Add what the room holds for it. */
	void (*held)(const struct sandbox *sandbox, struct sandbox_held *sum);
};

#endif /* SERVICE_CORE_HOOKS_H */
