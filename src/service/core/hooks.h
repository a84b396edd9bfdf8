/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hooks.h - how a room takes part in the life of the service and of each sandbox
 *
 * The core manages sandboxes and knows nothing about what happens in them: execs,
 * sessions and files are separate rooms, which use the core and are never used by it.
 * Each room has one struct service_room; service/rooms.c lists them, and the core calls
 * their hooks in that order, so each room can rely on the rooms before it. Any hook may
 * be NULL.
 *
 * A room keeps its state for the service and for each sandbox in zeroed memory that the
 * core allocates with them, and frees after gone() and close().
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

	/* The service starts and ends. close() also follows a failed open(). */
	int (*open)(struct service *s, const struct service_options *options,
		    struct warren_error *err);
	void (*close)(struct service *s);
	/* Look for leftovers, at the start and whenever gc.c runs. */
	void (*gc)(struct service *s);
	/* service.n_unsaved is not 0: try again to record those results. */
	void (*save)(struct service *s);

	/* It was just created and is running. */
	void (*created)(struct sandbox *sandbox);
	/* A sandbox of an earlier process is connected: find its rows in the database. */
	void (*restore)(struct sandbox *sandbox);
	/* There is a connection to its init. @done is called once, with 0. */
	void (*connected)(struct sandbox *sandbox, service_done_fn done, void *ctx);
	/* It was paused, and runs again. */
	void (*resumed)(struct sandbox *sandbox);
	/* The connection broke, and may be opened again. */
	void (*disconnected)(struct sandbox *sandbox);
	/* Its init reports that an exec ended. Return whether it belongs to this room. */
	bool (*exited)(struct sandbox *sandbox, const struct proto_exited *msg);
	/* Its init is gone: the results of its running execs are not known. */
	void (*lost)(struct sandbox *sandbox);
	/*
	 * Its rows are about to be deleted: remove what is stored outside the database.
	 */
	void (*forget)(struct sandbox *sandbox);
	/* It is about to be freed. */
	void (*gone)(struct sandbox *sandbox);
	/* Add what the room holds for it. */
	void (*held)(const struct sandbox *sandbox, struct sandbox_held *sum);
};

#endif /* SERVICE_CORE_HOOKS_H */
