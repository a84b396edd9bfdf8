/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - what only the files of the core share */
#ifndef SERVICE_CORE_INTERNAL_H
#define SERVICE_CORE_INTERNAL_H

#include "service/core/room.h"

#define FAILED_KEPT_MS (3600 * 1000U) /* what could not be made, for those who ask */
#define ANSWER_MS      20000          /* for an init to answer; it takes microseconds */
#define LONG_MS        (1800 * 1000U) /* for a shim that says that it is at it */
#define UNASKED_MAX    (2U * PROTO_EXECS_MAX) /* ends of unknown execs */
#define READ_AT_ONCE   64 /* messages of one connection before others have their turn */

/* A request to the warden that waits for its reply. */
struct warden_conn_ask {
	struct warden_conn_ask *next;
	uint32_t seq;
	/* @data and @fd (taken, -1: none) are of a reply that worked. */
	void (*fn)(void *ctx, const struct warren_error *err, const char *data,
		   size_t size, int fd);
	void *ctx;
};

/* A request to an init that waits for its reply. */
struct init_conn_ask {
	struct init_conn_ask *next;
	uint32_t seq;
	uint64_t due;  /* ms of the loop's clock */
	uint64_t last; /* the same, whatever is said in the meantime */
	void (*fn)(void *ctx, struct init_reply *a,
		   const struct warren_error *err); /* a: NULL */
	void *ctx;
};

/* event.c */
int event_open(struct service *s, struct warren_error *err);
void event_close(struct service *s);
/* Of a sandbox that has no sandbox (yet). */
void event_emit_row(struct service *s, enum event_type type,
		    const struct sandbox_row *row, const char *object, const char *reason,
		    const struct warren_result *result);

/*
 * Within such a transaction: its sandbox ends, and with it all execs and sessions of
 * which no end was told.
 */
int event_emit_ends(struct sandbox *sandbox, const char *why, struct warren_error *err);

/* gc.c */
int tidy_open(struct service *s);
void tidy_close(struct service *s);
/* prune.c */
int prune_open(struct service *s);
void prune_close(struct service *s);

/* disk.c */
int disk_open(struct service *s);
void disk_close(struct service *s);
/* warden_conn.c */
int warden_conn_open(struct service *s, int sock, struct warren_error *err);
void warden_conn_close(struct service *s);
/* -ESHUTDOWN: the warden is gone, -ENOMEM: @fn is not called. */
int warden_conn_ask(struct service *s, void *msg, size_t size,
		    void (*fn)(void *ctx, const struct warren_error *err,
			       const char *data, size_t size, int fd),
		    void *ctx);
/*
 * The same about a sandbox: @msg begins as struct warden_proto_sandbox, which gets its id
 * and backend.
 */
int warden_conn_ask_of(const struct sandbox *sandbox, void *msg, size_t size,
		       void (*fn)(void *ctx, const struct warren_error *err,
				  const char *data, size_t size, int fd),
		       void *ctx);

/* pool_ids.c */
struct warden_proto_pool;
void pool_ids_hear(struct service *s, const struct warden_proto_pool *msg, size_t size);
/*
 * Rows of the native backend get ids of parts, the first ones: those before the one
 * returned.
 */
size_t pool_ids_take(struct service *s, struct sandbox_row *rows, size_t n);
/* They were not used. */
void pool_ids_return(struct service *s, const struct sandbox_row *rows, size_t n);

/* init_conn.c */
/* Speak over @conn (taken), which is described by @text. */
int init_conn_open(struct sandbox *sandbox, int conn, const char *text, size_t size,
		   struct warren_error *err);
/* All that wait hear @why. */
void init_conn_close(struct sandbox *sandbox, const struct warren_error *why);
/* Those whose init does not answer are lost. */
void init_conn_check_due(struct service *s);

/* init_conn_out.c */
/* Now, or as soon as there is room; -EAGAIN: too many wait already. */
int init_conn_send(struct sandbox *sandbox, const void *data, size_t size, const int *fds,
		   size_t n_fds);
void init_conn_flush(struct sandbox *sandbox);
void init_conn_drop(struct sandbox *sandbox);

/* reconnect.c */
/* Its line has ended: open it again, if there is still an init. */
void sandbox_disconnected(struct sandbox *sandbox, const struct warren_error *why);
/* Ask the warden for a connection; @done when its execs are reached again. */
void sandbox_reconnect(struct sandbox *sandbox, service_done_fn done, void *ctx);
/* What became of that: lost, or tried again later. */
void sandbox_reconnected(struct sandbox *sandbox, int r, const struct warren_error *err);
void reconnect_sandbox_gone(struct sandbox *sandbox);
/* sandbox_ops.c: sandbox_reconnect(), when nothing else happens to it. */
void sandbox_reconnect_in_turn(struct sandbox *sandbox);
/*
 * restore.c: a connection to its init is here (@fd is taken); it is as the store has it.
 */
int sandbox_take_up(struct sandbox *sandbox, const char *data, size_t size, int fd,
		    service_done_fn done, void *ctx, struct warren_error *err);
/* sandbox.c */
struct sandbox *sandbox_new(struct service *s, const struct sandbox_row *row);
void sandbox_free(struct sandbox *sandbox);
int sandbox_refresh(struct sandbox *sandbox, struct warren_error *err);
/* The store says that it is @to by now. */
void sandbox_moved(struct sandbox *sandbox, enum sandbox_state to);
void sandbox_unmake(struct sandbox *sandbox, service_done_fn done, void *ctx);
void sandbox_pause_for(struct sandbox *sandbox, const char *why, service_done_fn done,
		       void *ctx);
/* Whether it was paused for being idle, by its row. */
void sandbox_read_pause(struct sandbox *sandbox);
/* No one has used it for as long as it was to be awake. */
bool sandbox_is_idle(const struct sandbox *sandbox);
/* sandbox_ops.c */
void sandbox_next_job(struct sandbox *sandbox);

/* sandbox_create.c */
void sandbox_make(struct sandbox *sandbox, const struct warren_spec *spec,
		  const struct sandbox_source *source);
/* Do not wait for its pull: the sandbox will be deleted. */
void sandbox_make_cancel(struct sandbox *sandbox);

/* sandbox_spec.c */
void spec_read_idle(struct sandbox *sandbox);
/* In the database alone; as of struct sandbox_change. */
int spec_write_idle(const struct sandbox *sandbox, const char *on_idle, int wake_on_use,
		    struct warren_error *err);
/* In the store, charged by the difference. */
int spec_set_limits(struct sandbox *sandbox, const struct warren_limits *limits,
		    struct warren_error *err);

/* file_worker.c */
/* More can be done than before, or less. */
void file_queue_turn(struct sandbox *sandbox);
/* All that wait hear @why. */
void file_queue_close(struct sandbox *sandbox, const struct warren_error *why);
void file_queue_free(struct sandbox *sandbox);

/* Call a hook of all rooms that have it, in their order. */
#define ROOMS_CALL(service, hook, ...)                                                   \
	do {                                                                             \
		for (const struct service_room *const *room_ = (service)->hooks; *room_; \
		     room_++)                                                            \
			if ((*room_)->hook)                                              \
				(*room_)->hook(__VA_ARGS__);                             \
	} while (0)

#endif /* SERVICE_CORE_INTERNAL_H */
