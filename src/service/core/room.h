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

/* On whose behalf something waits: permit.c. */
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
	struct loop_task waiters_task; /* tells those who reached what they waited for */

	/* The line to its init. */
	int conn; /* -1: none */
	uint32_t seq;
	struct loop_watch *watch;
	struct init_conn_ask *asks, **asks_tail;
	unsigned unasked; /* messages about nothing, since the line was opened */
	struct init_conn_out *out,
		**out_tail; /* requests that wait for room: init_conn_out.c */
	size_t out_n, out_bytes;
	struct loop_timer *out_timer;
	struct sandbox *asking_next, **asking_prev;
	struct description is; /* what its maker says of it */

	/* reconnect.c: its line broke, or could not be opened yet. */
	bool loaded;               /* its execs and sessions are in memory */
	struct warren_error broke; /* why; told if it turns out that its init is gone */
	unsigned breaks;           /* of late */
	unsigned tries;            /* to open it, that failed */
	uint64_t tried_at;         /* the first of them */
	unsigned unwelcome;        /* connections since init last answered a HELLO */
	uint64_t broke_at;         /* ms of the loop's clock */
	struct loop_timer *reconnect_timer;

	struct fair_quota_lease descriptors; /* for its line */

	uint32_t last_number; /* of an exec: init takes none twice */
	uint64_t oom_kills;   /* in execs that have ended, as its init says */

	struct loop_timer *timer; /* of its time to live and its idle time */
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
	bool abandoned;            /* nobody can ask what became of its making */
	const char *reason;        /* of what happens to it at present; NULL */
	struct sandbox_job *jobs;  /* that wait for `moving` to end */
	struct create_op *pulling; /* its making waits for an image; NULL */
	struct file_queue *file_queue; /* requests about files; NULL: there were none */
	uint64_t created;              /* ns, monotonic: for the figures */
	int failure;                   /* errno of a making that failed */
	bool command_failed;           /* it was its main command that did */
	bool starting; /* its main command is being started for the first time */
};

/* Has it an init, if all is well with it? */
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
	/* What is kept comes after the first; the last is that which was emitted last. */
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

/*
 * A write that failed is survived where what it says can be found again; it is counted.
 */
static inline void survive(struct service *s, int r)
{
	s->metrics.store_errors += r < 0;
}

/* event.c */
/* A change of the store and the events that tell of it, as one. */
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
/* Something was left that must be put right, as soon as that is possible. */
void service_untidy(struct service *s);

/* disk.c */
/*
 * May results be forgotten for the output of a new exec? -EAGAIN: there is room by now.
 */
int disk_may_forget(struct service *s);
/* May something be added to the disk? -ENOSPC. */
int disk_admit(struct service *s, struct warren_error *err);

/*
 * lease.c: @n for @tenant, instead of what @lease had before; -EUSERS: it has its share.
 * lease_force() is for what is there already.
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
 * Memory that grows: @bytes in all, in steps. What is small is free of it. -EUSERS,
 * -ENOMEM: there is no room for so many; @lease is as it was.
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
 * Its init is gone without having been told to, or counts as gone: mute, late, out of
 * protocol.
 */
void sandbox_lost(struct sandbox *sandbox, const struct warren_error *why);
/* The only one that changes a sandbox's state; in the store first. */
int sandbox_move(struct sandbox *sandbox, enum sandbox_state to, const char *error,
		 struct warren_error *err);
/* sandbox_ops.c: kill what there may be of it, and let it be `failed` then. */
void sandbox_end(struct sandbox *sandbox, const struct warren_error *why);
/* As sandbox_delete() and sandbox_pause(), with the reason that is told. */
void sandbox_delete_for(struct sandbox *sandbox, const char *why, service_done_fn done,
			void *ctx);
/* There is no line: why, and whether to try again. */
int init_conn_refuse(const struct sandbox *sandbox, struct warren_error *err);
void sandbox_arm(struct sandbox *sandbox);
void sandbox_touch(struct sandbox *sandbox);

/* sandbox_ports.c */
/* The user of an exec or file, asked for inside if need be. */
void sandbox_find_user(struct sandbox *sandbox, const char *text,
		       void (*fn)(void *ctx, const struct initclient_user *user,
				  const struct warren_error *err),
		       void *ctx);

/* For what nobody waits for. */
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
