/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - shared by the files of the core */
#ifndef SERVICE_CORE_INTERNAL_H
#define SERVICE_CORE_INTERNAL_H

#include "service/core/module.h"

/* Time for which clients can see a failed creation. */
#define FAILED_KEPT_MS (3600 * 1000U)
/* Time limit for a reply from init, which usually takes microseconds. */
#define ANSWER_MS 20000
/* Time limit for a shim that reports that it is still working. */
#define LONG_MS (UINT64_C(1800) * 1000)
/* Maximum number of reported ends of unknown execs. */
#define UNASKED_MAX  (2U * PROTO_EXECS_MAX)
#define READ_AT_ONCE 64 /* maximum number of messages of one connection in one turn */

struct create_op;
struct sandbox_group;

/* A request to the warden that waits for its reply. */
struct warden_conn_ask {
	struct warden_conn_ask *next;
	uint32_t seq;
	/*
	 * @data and @fd are those of a successful reply. The callback must close @fd (-1:
	 * none).
	 */
	void (*fn)(void *ctx, const struct warren_error *err, const char *data,
		   size_t size, int fd);
	void *ctx;
};

/* A request to an init that waits for its reply. */
struct init_conn_ask {
	struct init_conn_ask *next;
	uint32_t seq;
	/* Deadline, in ms of the loop's clock; reports of progress extend it. */
	uint64_t due;
	uint64_t last; /* the latest possible deadline */
	void (*fn)(void *ctx, struct init_reply *a,
		   const struct warren_error *err); /* a: NULL */
	void *ctx;
};

/* event.c */
int event_open(struct service *s, struct warren_error *err);
void event_close(struct service *s);
/* Emit an event for a sandbox that has no struct sandbox. */
void event_emit_row(struct service *s, enum event_type type,
		    const struct sandbox_row *row, const char *object, const char *reason,
		    const struct warren_result *result);

/*
 * For a sandbox that ends: emit the events for the end of all its sessions, and of all
 * execs for which that event was not emitted yet. Call this within a transaction of
 * event_begin().
 */
int event_emit_ends(struct sandbox *sandbox, const char *why, struct warren_error *err);

/* gc.c */
int tidy_open(struct service *s);
void tidy_close(struct service *s);
/* orphans.c */
int orphans_open(struct service *s);
void orphans_close(struct service *s);
/*
 * Destroy the sandboxes of @backend that are alive but should not exist. @backend is
 * borrowed. If this fails for a sandbox, it is tried again later. Calls @done when the
 * warden has answered. Returns -errno, and does not call @done, if the warden cannot be
 * asked. -EALREADY: this is already in progress.
 */
int orphans_destroy(struct service *s, const char *backend, service_done_fn done,
		    void *ctx);
/* Call orphans_destroy() for all backends, now or within a second. */
void orphans_look(struct service *s);
void orphans_look_soon(struct service *s);
/* prune.c */
int prune_open(struct service *s);
void prune_close(struct service *s);

/* disk.c */
int disk_open(struct service *s);
void disk_close(struct service *s);
/* warden_conn.c */
int warden_conn_open(struct service *s, int sock, struct warren_error *err);
void warden_conn_close(struct service *s);

/* pool_ids.c */
struct warden_proto_pool;
void pool_ids_hear(struct service *s, const struct warden_proto_pool *msg, size_t size);
/*
 * Give prepared ids to rows of the native backend. Returns the index after the last row
 * that got one.
 */
size_t pool_ids_take(struct service *s, struct sandbox_row *rows, size_t n);
/* Give back ids that were not used. */
void pool_ids_return(struct service *s, const struct sandbox_row *rows, size_t n);

/*
 * Get the time, by service_time(), before which no sandbox of this run directory can have
 * run; 0: unknown. @id differs from that of every other run directory ("": unknown), and
 * @made is when it was created, by the system time (0: unknown).
 */
int service_clock_run(struct db *db, const char *id, int64_t made, int64_t *ret_since,
		      struct warren_error *err);

/* hibernate.c: the sandbox has no init, and its files are saved. */
void sandbox_is_asleep(struct sandbox *sandbox);
/* Load what the database has of a sandbox that is not awake, and end its execs. */
void sandbox_load_asleep(struct sandbox *sandbox);
/* sandbox.c: like sandbox_lost(), but with the state that it gets. */
void sandbox_lost_to(struct sandbox *sandbox, enum sandbox_state to,
		     const struct warren_error *why);
/* sandbox_ops.c: like sandbox_end(), but with the state that it gets. */
void sandbox_end_as(struct sandbox *sandbox, enum sandbox_state to,
		    const struct warren_error *why);
/* sandbox_create.c: take the descriptors of the warden's reply to CREATE. */
int create_take_fds(struct sandbox *sandbox, bool captured, int fd, int *ret_conn,
		    struct warren_error *err);
/* init_conn.c */
/* Use the connection @conn to the init that @text describes; takes @conn. */
int init_conn_open(struct sandbox *sandbox, int conn, const char *text, size_t size,
		   struct warren_error *err);
/* Mark the init as just created by this build, so that its features are already known. */
void init_conn_is_new(struct sandbox *sandbox);
/* Fail all waiting requests with @why. */
void init_conn_close(struct sandbox *sandbox, const struct warren_error *why);
/* Mark the sandboxes whose init does not answer in time as lost. */
void init_conn_check_due(struct service *s);

/* init_conn_out.c */
/*
 * Send a message now, or when the socket has space; -EAGAIN: too many messages wait
 * already.
 */
int init_conn_send(struct sandbox *sandbox, const void *data, size_t size, const int *fds,
		   size_t n_fds);
void init_conn_flush(struct sandbox *sandbox);
void init_conn_drop(struct sandbox *sandbox);

/* reconnect.c */
/* The connection has ended: open a new one if the sandbox's init still exists. */
void sandbox_disconnected(struct sandbox *sandbox, const struct warren_error *why);
/* Ask the warden for a connection. Calls @done when the execs are attached again. */
void sandbox_reconnect(struct sandbox *sandbox, service_done_fn done, void *ctx);
/*
 * Handle the result of a reconnection. On failure, the sandbox is lost, or the core tries
 * again later.
 */
void sandbox_reconnected(struct sandbox *sandbox, int r, const struct warren_error *err);
void reconnect_sandbox_gone(struct sandbox *sandbox);
/*
 * sandbox_ops.c: call sandbox_reconnect() as a job, after the other jobs of the sandbox.
 */
void sandbox_reconnect_in_turn(struct sandbox *sandbox);
/*
 * restore.c: use @fd, a connection to the init of a sandbox that is in the database;
 * takes @fd.
 */
int sandbox_take_up(struct sandbox *sandbox, const char *data, size_t size, int fd,
		    service_done_fn done, void *ctx, struct warren_error *err);
/* sandbox.c */
struct sandbox *sandbox_new(struct service *s, const struct sandbox_row *row);
void sandbox_free(struct sandbox *sandbox);
int sandbox_refresh(struct sandbox *sandbox, struct warren_error *err);
/* Update the struct after the database has changed the state to @to. */
void sandbox_moved(struct sandbox *sandbox, enum sandbox_state to);
void sandbox_unmake(struct sandbox *sandbox, service_done_fn done, void *ctx);
void sandbox_pause_for(struct sandbox *sandbox, enum sandbox_cause cause,
		       service_done_fn done, void *ctx);
/* Read from the row whether the sandbox was paused automatically. */
void sandbox_read_pause(struct sandbox *sandbox);
/* sandbox_ops.c */
void sandbox_next_job(struct sandbox *sandbox);

/* sandbox_create.c */
/* @group: NULL, or the group of sandboxes that it is created with. */
void sandbox_make(struct sandbox *sandbox, const struct warren_spec *spec,
		  const struct sandbox_source *source, struct sandbox_group *group);
/* The parts of a creation, for a group; its sandbox exists. */
struct create_op *create_op_next(const struct create_op *m);
void create_op_link(struct create_op *m, struct create_op *next);
/* Record that the sandbox runs. */
int create_op_take_over(struct create_op *m, struct warren_error *err);
/* Let it run; frees @m. */
void create_op_finish(struct create_op *m);
/* Accepts NULL. If the group still waits for the creation, it has failed. */
void create_op_free(struct create_op *m);
/* Stop waiting for its pull, because the sandbox will be deleted. */
void sandbox_make_cancel(struct sandbox *sandbox);

/* sandbox_group.c */
/* A new group of @n sandboxes; NULL: out of memory. */
struct sandbox_group *sandbox_group_new(struct service *s, size_t n, sandbox_all_fn done,
					void *ctx);
/* Free a group of which no sandbox was recorded; accepts NULL. */
void sandbox_group_free(struct sandbox_group *g);
/* All creations of the group have begun. It ends by itself. */
void sandbox_group_begun(struct sandbox_group *g, const struct sandbox_row *rows);
/* A sandbox is prepared; the group takes @m. */
void sandbox_group_ready(struct sandbox_group *g, struct create_op *m);
/* A sandbox could not be created; @why NULL: its creation was given up. */
void sandbox_group_leave(struct sandbox_group *g, const struct warren_error *why);

/* sandbox_spec.c */
void spec_read_idle(struct sandbox *sandbox);
/* Change only the database; see struct sandbox_change for the parameters. */
int spec_write_idle(const struct sandbox *sandbox, const struct sandbox_change *c,
		    struct warren_error *err);
/* Change the limits in the database, and charge the difference. */
int spec_set_limits(struct sandbox *sandbox, const struct warren_limits *limits,
		    struct warren_error *err);

/* file_worker.c */
/* Send waiting requests, after the number of allowed requests has changed. */
void file_queue_turn(struct sandbox *sandbox);
/* Fail all waiting requests with @why. */
void file_queue_close(struct sandbox *sandbox, const struct warren_error *why);
void file_queue_free(struct sandbox *sandbox);

/* Call a hook of all modules that implement it, in their order. */
#define ROOMS_CALL(service, hook, ...)                                               \
	do {                                                                         \
		for (const struct service_module *const *module_ = (service)->hooks; \
		     *module_; module_++)                                            \
			if ((*module_)->hook)                                        \
				(*module_)->hook(__VA_ARGS__);                       \
	} while (0)

#endif /* SERVICE_CORE_INTERNAL_H */
