/* SPDX-License-Identifier: Apache-2.0 */
/* room.h - the core for the other rooms: its structs and functions */
#ifndef SERVICE_CORE_ROOM_H
#define SERVICE_CORE_ROOM_H

#include "initclient/request.h"
#include "initclient/sandbox_desc.h"
#include "net/loop.h"
#include "service/core/fair_quota.h"
#include "service/core/hooks.h"

#define SANDBOX_BUCKETS 16384 /* a power of two */
#define EVENTS_KEPT     4096
#define RETRY_MS        1000

/* The token on whose behalf a request waits: permit.c. */
struct permit {
	char token[ID_LEN + 1]; /* "": no token was needed */
	int64_t expires_at;     /* 0: never */
};

/* What the service holds for its tenants: lease.c. */
enum lease_kind {
	LEASE_DESCRIPTORS,
	LEASE_OUTPUT,
	LEASE_WRITERS, /* threads that write to files of sandboxes */
	LEASE_EXECS,   /* of one sandbox: its init counts them */
	LEASE_TERMINALS,
	LEASE_MEMORY, /* bytes: names of directories */
	LEASE_KIND_MAX,
};

struct warden_conn {
	struct service *service;
	int sock;
	struct loop_watch *watch;
	struct warden_conn_ask *asks, **asks_tail; /* the oldest first */
	uint32_t seq;
	struct warden_conn_out *out, **out_tail; /* that did not fit into the socket */
	struct loop_timer *timer; /* memory was short: they are tried again */
	void (*ended)(void *ctx);
	void *ctx;
};

struct sandbox {
	struct service *service;
	struct sandbox *hash_next;
	struct sandbox_row row; /* as it is in the store */
	void *rooms[ROOM_MAX];  /* what each room keeps for it */
	struct sandbox_waiter *waiters;
	struct loop_task waiters_task; /* calls the waiters whose state was reached */

	/* The connection to its init. */
	int conn; /* -1: none */
	uint32_t seq;
	struct loop_watch *watch;
	struct init_conn_ask *asks, **asks_tail;
	unsigned unasked; /* unrequested messages since the connection was opened */
	struct init_conn_out *out,
		**out_tail; /* requests that wait for room: init_conn_out.c */
	size_t out_n, out_bytes;
	struct loop_timer *out_timer;
	struct sandbox *asking_next, **asking_prev;
	struct description is; /* how its creator describes it */

	/* reconnect.c: its connection broke, or could not be opened yet. */
	bool loaded;               /* its execs and sessions are in memory */
	struct warren_error broke; /* why; the error if its init turns out to be gone */
	unsigned breaks;           /* of late */
	unsigned tries;            /* to open it, that failed */
	uint64_t tried_at;         /* the first of them */
	unsigned unwelcome;        /* connections since init last answered a HELLO */
	uint64_t broke_at;         /* ms of the loop's clock */
	struct loop_timer *reconnect_timer;

	struct fair_quota_lease descriptors; /* for its connection */

	uint32_t last_number; /* of an exec: init takes none twice */
	uint64_t oom_kills;   /* in execs that have ended, as its init says */

	struct loop_timer *timer; /* for its time to live and its idle time */
	unsigned n_running;       /* execs that keep it from being idle */
	unsigned n_engaged;       /* connections that do */
	int64_t touched;          /* when last_used was last written */
	bool asking;              /* in service.asking */
	bool moving;              /* a pause, resume or deletion is under way */
	bool working;             /* next_job() is on the stack */
	bool auto_paused, delete_when_idle, wake_on_use;
	bool saved;                /* paused, by a checkpoint */
	bool undead;               /* `failed`, and could not be killed: tried again */
	bool gates;                /* its init waits for our word before it executes */
	bool workers;              /* its init starts file workers */
	bool welcomed;             /* what its init can do is known */
	bool abandoned;            /* no client can ask for the outcome of its creation */
	const char *reason;        /* of what happens to it at present; NULL */
	struct sandbox_job *jobs;  /* that wait for `moving` to end */
	struct create_op *pulling; /* its making waits for an image; NULL */
	struct file_queue *file_queue; /* requests about files; NULL: there were none */
	uint64_t created;              /* ns, monotonic: for the figures */
	int failure;                   /* errno of a making that failed */
	bool command_failed;           /* it was its main command that did */
	bool starting; /* its main command is being started for the first time */
};

/* Whether it should have an init in this state. */
static inline bool sandbox_is_made(const struct sandbox *sandbox)
{
	return sandbox->row.state == SANDBOX_RUNNING ||
	       sandbox->row.state == SANDBOX_PAUSED ||
	       sandbox->row.state == SANDBOX_STOPPED;
}

struct service {
	const struct service_room *const *hooks; /* of the rooms; NULL-terminated */
	void *rooms[ROOM_MAX];                   /* what each room keeps */
	struct net_loop *loop;
	struct db *db;
	int journals; /* a directory */
	const char *const *backends;
	struct warden_conn warden_conn;
	bool closing; /* nothing that ends now is known to have failed */
	struct sandbox *sandboxes[SANDBOX_BUCKETS];
	size_t n_sandboxes;
	struct sandbox *asking;
	struct loop_timer *asking_timer;
	struct loop_timer *tidy_timer;
	struct loop_timer *disk_timer; /* disk.c */
	bool disk_full, output_by_disk;
	uint64_t disk_left, disk_size; /* bytes */
	unsigned disk_turn;
	size_t n_unsaved; /* results that wait to be written */
	struct event events[EVENTS_KEPT];
	struct event past_event; /* one that is not among them any more */
	/* Events after first_event are kept; last_event is the newest one. */
	uint64_t first_event, stored_event, last_event;
	uint64_t dropped_event; /* that never came into the store; 0: none */
	unsigned event_depth;   /* of transactions */
	struct loop_timer *event_timer;
	struct loop_timer *prune_timer; /* prune.c */
	size_t prune_step;
	char prune_owner[DB_NAME_MAX + 1];
	struct waiters listeners;
	void (*note)(void *ctx, const char *text); /* NULL: there is no log */
	void *note_ctx;
	struct pull *pulls; /* under way or waiting, the oldest first */
	struct metrics metrics;
	struct permit permit; /* of the request that is being handled */
	struct fair_quota shares[LEASE_KIND_MAX];
	struct share_denial denial;   /* the last one */
	char stock[1024][ID_LEN + 1]; /* ids of parts that are ready */
	size_t n_stock;
};

/* A failed write of data that can be found again is not an error; it is counted. */
static inline void survive(struct service *s, int r)
{
	s->metrics.store_errors += r < 0;
}

/* event.c */
/* A change of the database and its events, as one transaction. */
struct event_tx {
	struct service *service; /* NULL: not begun, or over */
	struct db_tx tx;
	uint64_t before;
};

int event_begin(struct service *s, struct event_tx *tx,
		struct warren_error *err) MUST_CHECK;
int event_commit(struct event_tx *tx, struct warren_error *err) MUST_CHECK;
void event_rollback(struct event_tx *tx);
#define AUTO_EVENT_TX CLEANUP(event_rollback)

/* gc.c */
/* Something could not be cleaned up: try again as soon as possible. */
void service_untidy(struct service *s);

/* disk.c */
/*
 * Whether results may be deleted to make room for the output of a new exec. -EAGAIN:
 * there is room by now.
 */
int disk_may_forget(struct service *s);
/* Whether something may be added to the disk: 0 or -ENOSPC. */
int disk_admit(struct service *s, struct warren_error *err);

/*
 * lease.c: take @n for @tenant, instead of what @lease had before; -EUSERS: the tenant
 * has its whole share. lease_force() is for what already exists.
 */
int lease_take(struct service *s, enum lease_kind kind, const char *tenant, uint64_t n,
	       struct fair_quota_lease *lease, struct warren_error *err);
/* -EUSERS, in the same words: a sandbox has as much as one may have. */
int lease_deny(struct service *s, enum lease_kind kind, uint64_t used, uint64_t maximum,
	       struct warren_error *err);
void lease_force(struct service *s, enum lease_kind kind, const char *tenant, uint64_t n,
		 struct fair_quota_lease *lease);
void lease_end(struct service *s, enum lease_kind kind, struct fair_quota_lease *lease);
/*
 * Memory that grows: @bytes in all, in steps. Small amounts are not counted. -EUSERS,
 * -ENOMEM: there is no room for so many; @lease is unchanged.
 */
int lease_memory(struct service *s, const char *tenant, uint64_t bytes,
		 struct fair_quota_lease *lease, struct warren_error *err) MUST_CHECK;

/*
 * permit.c: -EKEYREVOKED, -EKEYEXPIRED: nothing may begin on behalf of that token any
 * more.
 */
int permit_check(struct service *s, const struct permit *p,
		 struct warren_error *err) MUST_CHECK;

/* init_conn.c */
int init_conn_ask(struct sandbox *sandbox, const struct init_request *q,
		  void (*fn)(void *ctx, struct init_reply *a,
			     const struct warren_error *err),
		  void *ctx, struct warren_error *err);
int init_conn_ask_struct(struct sandbox *sandbox, const void *msg, size_t size, int fd,
			 void (*fn)(void *ctx, struct init_reply *a,
				    const struct warren_error *err),
			 void *ctx, struct warren_error *err);
/* Without an answer; -errno when it could not be sent. */
int init_conn_tell(struct sandbox *sandbox, const void *msg, size_t size);

/* sandbox.c */
/*
 * Its init has ended unexpectedly, or counts as dead: it is silent, late, or violates the
 * protocol.
 */
void sandbox_lost(struct sandbox *sandbox, const struct warren_error *why);
/* The only function that changes a sandbox's state; in the database first. */
int sandbox_move(struct sandbox *sandbox, enum sandbox_state to, const char *error,
		 struct warren_error *err);
/* sandbox_ops.c: kill what may be left of it, then set it to `failed`. */
void sandbox_end(struct sandbox *sandbox, const struct warren_error *why);
/* Like sandbox_delete() and sandbox_pause(), with the reason for the event. */
void sandbox_delete_for(struct sandbox *sandbox, const char *why, service_done_fn done,
			void *ctx);
/* There is no connection: why, and whether to try again. */
int init_conn_refuse(const struct sandbox *sandbox, struct warren_error *err);
void sandbox_arm(struct sandbox *sandbox);
void sandbox_touch(struct sandbox *sandbox);

/* sandbox_ports.c */
/* The user of an exec or file, asked for inside if need be. */
void sandbox_find_user(struct sandbox *sandbox, const char *text,
		       void (*fn)(void *ctx, const struct initclient_user *user,
				  const struct warren_error *err),
		       void *ctx);

/* For operations whose outcome does not matter. */
void service_ignore(void *ctx, int r, const struct warren_error *err);

/*
 * file_worker.c: a request about files, whose bytes and descriptors are taken. Those of
 * the same @order (NULL: none) are done one after another. @fn comes once, at once if it
 * fails.
 */
typedef void (*file_answer_fn)(void *ctx, struct init_reply *a,
			       const struct warren_error *err);
void file_queue_ask(struct sandbox *sandbox, const void *order,
		    struct init_request *request, file_answer_fn fn, void *ctx);

#endif /* SERVICE_CORE_ROOM_H */
