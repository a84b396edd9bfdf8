/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hooks.h - how a module takes part in the life of the service and of each sandbox
 *
 * The core manages sandboxes. The modules exec, session, files, code, network and
 * volume manage the commands, shells, files, code runs, network policies and volumes of
 * them. Modules use the
 * core; the core calls a module only through the hooks in its struct service_module.
 * service/modules.c lists the modules, and the core calls their hooks in that order, so a
 * module can rely on those before it. Any hook may be NULL.
 *
 * The core allocates zeroed memory for the state of each module, for the service and for
 * each sandbox, and frees it after close() and gone().
 */
#ifndef SERVICE_CORE_HOOKS_H
#define SERVICE_CORE_HOOKS_H

#include "service/core/service.h"

struct proto_exited;

/* The index of a module's memory. */
enum service_room_number {
	MODULE_EXEC,
	MODULE_SESSION,
	MODULE_FILES,
	MODULE_CODE,
	MODULE_NETWORK,
	MODULE_VOLUME,
	MODULE_SNAPSHOT,
	MODULE_TEMPLATE,
	MODULE_MAX,
};

/* Why a sandbox is paused or hibernates. */
enum sandbox_cause {
	CAUSE_REQUEST,
	CAUSE_IDLE,
	CAUSE_TTL,
	CAUSE_MAX,
};
extern const char *const sandbox_causes[CAUSE_MAX]; /* as an event says it */

/* A hook that calls @done once, when it has finished. */
typedef void (*service_hook_fn)(struct sandbox *sandbox, service_done_fn done, void *ctx);

struct service_module {
	enum service_room_number number;
	/* Size of its memory for the service and for each sandbox. */
	size_t service_size, sandbox_size;

	/*
	 * Called when the service starts and ends. close() is also called after a failed
	 * open().
	 */
	int (*open)(struct service *s, const struct service_options *options,
		    struct warren_error *err);
	void (*close)(struct service *s);
	/* Look for leftovers. Called at the start and whenever gc.c runs. */
	void (*gc)(struct service *s);
	/* Called while service.n_unsaved is not 0: try again to record those results. */
	void (*save)(struct service *s);

	/*
	 * The warden has created the sandbox, which does not run yet. If a module reports
	 * a failure, the creation fails.
	 */
	service_hook_fn prepare;
	/* The sandbox was just created and is running. */
	void (*created)(struct sandbox *sandbox);
	/*
	 * The sandbox of an earlier process is connected: load its rows from the
	 * database.
	 */
	void (*restore)(struct sandbox *sandbox);
	/* The sandbox's init is connected. */
	service_hook_fn connected;
	/* The sandbox was paused and is running again. */
	void (*resumed)(struct sandbox *sandbox);
	/*
	 * Let the sandbox hibernate, unless it is in use again when its turn comes. One
	 * module implements this.
	 */
	void (*hibernate)(struct sandbox *sandbox, enum sandbox_cause cause,
			  service_done_fn done, void *ctx);
	/* The connection broke, and may be opened again. */
	void (*disconnected)(struct sandbox *sandbox);
	/*
	 * The sandbox's init reports that an exec ended. Returns whether the exec belongs
	 * to this module.
	 */
	bool (*exited)(struct sandbox *sandbox, const struct proto_exited *msg);
	/* The sandbox's init is gone: the results of its running execs are unknown. */
	void (*lost)(struct sandbox *sandbox);
	/*
	 * The sandbox's rows are about to be deleted: remove its data outside the
	 * database.
	 */
	void (*forget)(struct sandbox *sandbox);
	/* The sandbox is about to be freed. */
	void (*gone)(struct sandbox *sandbox);
	/* Add the resources that the module holds for the sandbox. */
	void (*held)(const struct sandbox *sandbox, struct sandbox_held *sum);
};

/*
 * hooks.c: call the hook at offset @hook of struct service_module, a service_hook_fn, of
 * all modules. Calls @done once when all of them have finished, with the first error.
 */
void hooks_await(struct sandbox *sandbox, size_t hook, service_done_fn done, void *ctx);

#endif /* SERVICE_CORE_HOOKS_H */
