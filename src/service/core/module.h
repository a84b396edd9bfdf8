/* SPDX-License-Identifier: Apache-2.0 */
/* module.h - the structs and functions of the core, for the modules (hooks.h) */
#ifndef SERVICE_CORE_MODULE_H
#define SERVICE_CORE_MODULE_H

#include "initclient/request.h"
#include "initclient/sandbox_desc.h"
#include "net/loop.h"
#include "service/core/fair_quota.h"
#include "service/core/hooks.h"

#define SANDBOX_BUCKETS 16384 /* a power of two */
#define EVENTS_KEPT     4096
#define RETRY_MS        1000

/* The token of the client that a waiting request belongs to: permit.c. */
struct permit {
	char token[ID_LEN + 1]; /* "": the request needed no token */
	int64_t expires_at;     /* 0: never */
};

/* Resources of the service that tenants share: lease.c. */
enum lease_kind {
	LEASE_DESCRIPTORS,
	LEASE_OUTPUT,
	LEASE_WRITERS, /* threads that write to files of sandboxes */
	LEASE_EXECS,   /* per sandbox: its init has a maximum */
	LEASE_TERMINALS,
	LEASE_MEMORY, /* bytes of memory for names of directories */
	LEASE_KIND_MAX,
};

/* What happens to a sandbox that is idle, or at the end of its time to live. */
enum sandbox_action {
	ACTION_PAUSE,
	ACTION_HIBERNATE,
	ACTION_DELETE,
	ACTION_MAX,
};

struct warden_conn {
	struct service *service;
	int sock;
	struct loop_watch *watch;
	struct warden_conn_ask *asks, **asks_tail; /* the oldest first */
	uint32_t seq;
	/* Messages that did not fit into the socket. */
	struct warden_conn_out *out, **out_tail;
	struct loop_timer *timer; /* timer for another attempt after memory ran out */
	void (*ended)(void *ctx);
	void *ctx;
};

struct sandbox {
	struct service *service;
	struct sandbox *hash_next;
	struct sandbox_row row;    /* the sandbox's row, as in the database */
	void *modules[MODULE_MAX]; /* state of each module */
	struct sandbox_waiter *waiters;
	struct loop_task waiters_task; /* calls waiters whose state is reached */

	/* The connection to the sandbox's init. */
	int conn; /* -1: none */
	uint32_t seq;
	struct loop_watch *watch;
	struct init_conn_ask *asks, **asks_tail;
	unsigned unasked; /* messages without a request since the connection was opened */
	/* Requests that wait for space in the connection: init_conn_out.c. */
	struct init_conn_out *out, **out_tail;
	size_t out_n, out_bytes;
	struct loop_timer *out_timer;
	struct sandbox *asking_next, **asking_prev;
	struct description is; /* description by the sandbox's creator */
	/*
	 * Sockets of its network, if the warden captured it when it created the sandbox:
	 * a module takes them in prepare(). -1: none.
	 */
	int captured[WARREN_CAPTURE_FDS];
	/* Variables for later execs, unless the sandbox has them; NULL: none. */
	const char *const *added_env;

	/* reconnect.c: for a connection that broke or could not be opened yet. */
	bool loaded; /* the sandbox's execs and sessions are in memory */
	/* Why the connection broke; becomes the sandbox's error if its init is gone. */
	struct warren_error broke;
	unsigned breaks;   /* how often it broke recently */
	unsigned tries;    /* failed attempts to open it */
	uint64_t tried_at; /* time of the first failed attempt */
	/* Connections opened since init last answered a HELLO. */
	unsigned unwelcome;
	uint64_t broke_at; /* ms of the loop's clock */
	struct loop_timer *reconnect_timer;

	struct fair_quota_lease descriptors; /* lease for the connection */

	uint32_t last_number; /* number of the last exec; init accepts each number once */
	uint64_t oom_kills;   /* OOM kills in ended execs, as its init reports */

	struct loop_timer *timer; /* timer for the lifetime and the idle timeout */
	unsigned n_running;       /* running execs; each keeps it from being idle */
	/* Open connections of clients; each keeps it from being idle. */
	unsigned n_engaged;
	int64_t touched; /* when last_used was last written */
	bool asking;     /* the sandbox is in the list service.asking */
	bool moving;     /* a pause, resume or deletion is in progress */
	bool discarded;  /* no client knows it, and it could not be deleted yet */
	bool working;    /* next_job() is running */
	bool auto_paused, wake_on_use;
	bool persist; /* its files are on disk, and survive its processes */
	enum sandbox_action on_idle, on_ttl;
	/* Unless on_ttl is ACTION_DELETE: how long it runs each time, in ms. */
	uint64_t lifetime_ms;
	bool saved; /* paused with a checkpoint */
	/*
	 * A copy of its files could not resume it: it is paused, whatever its state in
	 * the database, until its next use or start.
	 */
	bool left_paused;
	/*
	 * Operations that stop it only in order to hibernate: a request that needs it
	 * waits, and then wakes it.
	 */
	unsigned hibernating;
	/* Uses that end soon: a hibernation lets them end first. */
	unsigned n_brief;
	void (*on_brief_ended)(struct sandbox *sandbox); /* NULL: nothing waits */
	bool woken; /* this start wakes it from hibernation */
	/* undo.c: whether the warden has a copy of the files. */
	enum {
		UNDO_UNKNOWN, /* an earlier process may have requested a copy */
		UNDO_NONE,
		UNDO_KEEPING, /* the copy is being made */
		UNDO_KEPT,
	} undo;
	bool undo_spoiled; /* a file was changed while the copy was made */
	/*
	 * The command of the copy, and that of the copy before, which the warden keeps
	 * until it is known whether the command has started.
	 */
	struct undo_command {
		uint32_t number;
		unsigned runs; /* it has not ended */
		enum {
			UNDO_STARTING,
			UNDO_STARTED,
			UNDO_NOT_STARTED,
		} start;
	} undo_command, undo_former;
	/* Does the warden keep it? The second is for a copy that cannot be made. */
	bool undo_has_former, undo_had_former;
	struct db_hold *undo_hold; /* charges the tenant for the size of the copy */
	uint64_t undo_bytes;       /* that size */
	bool gates;      /* the sandbox's init supports gates (proto_spawn.gate) */
	bool workers;    /* the sandbox's init starts file workers */
	bool exec_files; /* the sandbox's init supports PROTO_SPAWN_FILE */
	bool welcomed;   /* the capabilities of its init are known */
	/* No client knows the sandbox's id, so none can ask how its creation ended. */
	bool abandoned;
	const char *reason;            /* reason for the current operation; NULL: none */
	struct sandbox_job *jobs;      /* jobs that wait for `moving` to end */
	struct create_op *pulling;     /* creation that waits for a pull; NULL: none */
	struct file_queue *file_queue; /* requests about files; NULL: none so far */
	uint64_t created;              /* ns, monotonic; for the metrics */
	int failure;                   /* errno of a failed creation */
	bool command_failed;           /* the main command failed, not the sandbox */
	bool starting; /* the main command is being started for the first time */
	/* The sandbox belongs to a code run (code/code.h). */
	bool code_run;
	bool code_pass; /* the next use is the run's own */
};

/* Return whether a sandbox in this state should have an init. */
/* A use that ends soon has begun, or has ended: see struct sandbox. */
static inline void sandbox_begin_brief(struct sandbox *sandbox)
{
	sandbox->n_brief++;
}

static inline void sandbox_end_brief(struct sandbox *sandbox)
{
	if (--sandbox->n_brief == 0 && sandbox->on_brief_ended)
		sandbox->on_brief_ended(sandbox);
}

static inline bool sandbox_is_made(const struct sandbox *sandbox)
{
	return sandbox->row.state == SANDBOX_RUNNING ||
	       sandbox->row.state == SANDBOX_PAUSED ||
	       sandbox_state_is_stopped(sandbox->row.state);
}

struct service {
	int64_t run_since; /* by service_time(): no sandbox ran before; 0: unknown */
	const struct service_module *const *hooks; /* the modules; NULL-terminated */
	void *modules[MODULE_MAX];                 /* state of each module */
	struct net_loop *loop;
	struct db *db;
	int journals;              /* directory of journals */
	char *secret_key;          /* path of the key file: secret.h */
	sandbox_respec_fn *respec; /* hibernate.c */
	void *respec_ctx;
	void (*secret_changed)(void *ctx, const char *tenant, const char *name);
	void *secret_ctx;
	const char *const *backends;
	const char *const *private_dirs;
	struct warden_conn warden_conn;
	/*
	 * The service is ending: a connection error does not mean that a sandbox failed.
	 */
	bool closing;
	struct sandbox *sandboxes[SANDBOX_BUCKETS];
	size_t n_sandboxes;
	struct sandbox *asking;
	struct loop_timer *asking_timer;
	struct loop_timer *tidy_timer;
	bool untidy; /* the timer is set */
	/* orphans.c: searches in progress, one for each backend. */
	struct orphans_op *orphans;
	struct loop_timer *orphans_timer;
	bool orphans_soon;             /* the timer is set for a search after a failure */
	unsigned orphans_failed;       /* consecutive searches that left orphans */
	struct loop_timer *disk_timer; /* disk.c */
	bool disk_full, output_by_disk;
	uint64_t disk_left, disk_size; /* bytes */
	struct diff_op *diffs;         /* lists of changed files in progress */
	uint64_t disk_reserved;        /* bytes of files that are being saved */
	unsigned disk_turn;
	bool disk_trims;          /* cached steps of builds are being removed */
	uint64_t disk_trimmed_at; /* ms of the loop's clock; 0: never */
	size_t n_unsaved;         /* results that are not in the database yet */
	struct event events[EVENTS_KEPT];
	struct event past_event; /* an event read from the database */
	/* Events after first_event are kept; last_event is the newest one. */
	uint64_t first_event, stored_event, last_event;
	uint64_t dropped_event; /* last event that could not be stored; 0: none */
	unsigned event_depth;   /* nesting of transactions */
	struct loop_timer *event_timer;
	struct loop_timer *prune_timer; /* prune.c */
	size_t prune_step;
	char prune_owner[DB_NAME_MAX + 1];
	struct waiters listeners;
	void (*note)(void *ctx, const char *text); /* NULL: no log */
	void *note_ctx;
	struct pull *pulls;               /* running or waiting, the oldest first */
	struct fair_quota image_turns[2]; /* image_stream.c: of archives, of builds */
	struct metrics metrics;
	struct permit permit; /* permit of the current request */
	struct fair_quota shares[LEASE_KIND_MAX];
	struct denials denials;       /* of leases */
	char stock[1024][ID_LEN + 1]; /* ids of prepared parts */
	size_t n_stock;
};

/* Count a failed write of data that can be recovered; it is not an error. */
static inline void survive(struct service *s, int r)
{
	s->metrics.store_errors += r < 0;
}

/* event.c */
/* A transaction that changes the database and stores the events for it. */
struct event_tx {
	struct service *service; /* NULL: not begun, or already ended */
	struct db_tx tx;
	uint64_t before;
};

int event_begin(struct service *s, struct event_tx *tx,
		struct warren_error *err) MUST_CHECK;
int event_commit(struct event_tx *tx, struct warren_error *err) MUST_CHECK;
void event_rollback(struct event_tx *tx);
#define AUTO_EVENT_TX CLEANUP(event_rollback)

/* gc.c */
/* Schedule another cleanup soon, because something could not be cleaned up. */
void service_untidy(struct service *s);

/* disk.c */
/*
 * Check whether results may be deleted to make space for the output of a new exec.
 * -EAGAIN: space has become available.
 */
int disk_may_forget(struct service *s);
/* Check whether new data may be written to the disk: 0 or -ENOSPC. */
int disk_admit(struct service *s, struct warren_error *err);
/*
 * Reserve @bytes for files that will be saved, so that others that are saved at the same
 * time do not count on the same space. The error says how much is free.
 */
int disk_reserve(struct service *s, uint64_t bytes, struct warren_error *err);
void disk_release(struct service *s, uint64_t bytes);

/*
 * lease.c: take @n units for @tenant; they replace the earlier amount of @lease. -EUSERS:
 * this exceeds the tenant's share. lease_force() ignores the share, for objects that
 * already exist.
 */
int lease_take(struct service *s, enum lease_kind kind, const char *tenant, uint64_t n,
	       struct fair_quota_lease *lease, struct warren_error *err);
/*
 * Count a denial, and remember the quota that *@err is about; returns -EUSERS. @quota is
 * a constant.
 */
int service_deny(struct service *s, const char *quota, uint64_t used, uint64_t maximum,
		 const struct warren_error *err);
/* Sets the error -EUSERS for a sandbox that has reached its own maximum. */
int lease_deny(struct service *s, enum lease_kind kind, uint64_t used, uint64_t maximum,
	       struct warren_error *err);
void lease_force(struct service *s, enum lease_kind kind, const char *tenant, uint64_t n,
		 struct fair_quota_lease *lease);
void lease_end(struct service *s, enum lease_kind kind, struct fair_quota_lease *lease);
/*
 * A lease of memory that grows in steps to @bytes in total. Small amounts are not
 * counted. -EUSERS, -ENOMEM: over the limit; @lease is unchanged.
 */
int lease_memory(struct service *s, const char *tenant, uint64_t bytes,
		 struct fair_quota_lease *lease, struct warren_error *err) MUST_CHECK;

/*
 * permit.c: whether the token is still valid. -EKEYREVOKED, -EKEYEXPIRED: do not begin
 * anything on its behalf.
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
/* Send a message that has no answer; -errno: it could not be sent. */
int init_conn_tell(struct sandbox *sandbox, const void *msg, size_t size);

/* sandbox.c */
/*
 * The sandbox's init has ended unexpectedly, or is treated as dead because it is silent,
 * late, or violates the protocol. It becomes `failed`, or `stopped` if its files are on
 * disk.
 */
void sandbox_lost(struct sandbox *sandbox, const struct warren_error *why);
/* The only function that changes a sandbox's state. It changes the database first. */
int sandbox_move(struct sandbox *sandbox, enum sandbox_state to, const char *error,
		 struct warren_error *err);
/* sandbox_ops.c: kill the rest of the sandbox, then set its state to `failed`. */
void sandbox_end(struct sandbox *sandbox, const struct warren_error *why);
/* Like sandbox_delete() and sandbox_pause(), with the reason for the event. */
void sandbox_delete_for(struct sandbox *sandbox, const char *why, service_done_fn done,
			void *ctx);
/* Return whether the cause still applies: the sandbox may be in use again. */
bool sandbox_is_due(const struct sandbox *sandbox, enum sandbox_cause cause);
/*
 * Set the error for a sandbox without a connection: the reason, and whether to try again.
 */
int init_conn_refuse(const struct sandbox *sandbox, struct warren_error *err);
void sandbox_arm(struct sandbox *sandbox);
/* Close the sockets that no module uses. */
void sandbox_close_captured(struct sandbox *sandbox);
void sandbox_touch(struct sandbox *sandbox);

/* sandbox_ports.c */
/* Find the user of an exec or file; looks it up inside the sandbox if necessary. */
void sandbox_find_user(struct sandbox *sandbox, const char *text,
		       void (*fn)(void *ctx, const struct initclient_user *user,
				  const struct warren_error *err),
		       void *ctx);

/* A `done` function for operations whose outcome does not matter. */
void service_ignore(void *ctx, int r, const struct warren_error *err);

/*
 * file_worker.c: send a request about files; takes its bytes and descriptors. Requests
 * with the same @order (NULL: none) are carried out one after another. @fn is called
 * once; at once if the request fails.
 */
typedef void (*file_answer_fn)(void *ctx, struct init_reply *a,
			       const struct warren_error *err);
void file_queue_ask(struct sandbox *sandbox, const void *order,
		    struct init_request *request, file_answer_fn fn, void *ctx);

/* warden_conn.c */
/* Returns -ESHUTDOWN if the warden is gone, or -ENOMEM; then @fn is not called. */
int warden_conn_ask(struct service *s, void *msg, size_t size,
		    void (*fn)(void *ctx, const struct warren_error *err,
			       const char *data, size_t size, int fd),
		    void *ctx);
/*
 * Like warden_conn_ask(), for a request about a sandbox. @msg begins with struct
 * warden_proto_sandbox, which gets the sandbox's id and backend.
 */
int warden_conn_ask_of(const struct sandbox *sandbox, void *msg, size_t size,
		       void (*fn)(void *ctx, const struct warren_error *err,
				  const char *data, size_t size, int fd),
		       void *ctx);

/* sandbox_spec.c */
/* Change the policy in the database; NULL: no network outside. */
int spec_set_network(struct sandbox *sandbox, const char *policy,
		     struct warren_error *err);

#endif /* SERVICE_CORE_MODULE_H */
