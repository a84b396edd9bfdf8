/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - the structs of the service, for the files of this folder */
#ifndef SERVICE_CORE_INTERNAL_H
#define SERVICE_CORE_INTERNAL_H

#include "initclient/sandbox_desc.h"
#include "net/loop.h"
#include "proto/journal_read.h"
#include "service/core/fair_quota.h"
#include "service/core/service.h"

#define SANDBOX_BUCKETS 16384 /* a power of two */
#define EVENTS_KEPT     4096
#define FAILED_KEPT_MS  (3600 * 1000U) /* what could not be made, for those who ask */
#define ANSWER_MS       20000          /* for an init to answer; it takes microseconds */
#define LONG_MS         (1800 * 1000U) /* for a shim that says that it is at it */
#define UNASKED_MAX     (2U * PROTO_EXECS_MAX) /* ends of execs that nobody knows */
#define RETRY_MS        1000
#define READ_AT_ONCE    64 /* messages of one connection before others have their turn */

/* A request to the warden that waits for its reply. */
struct warden_conn_ask {
	struct warden_conn_ask *next;
	uint32_t seq;
	/* @data and @fd (taken, -1: none) are of a reply that worked. */
	void (*fn)(void *ctx, const struct warren_error *err, const char *data,
		   size_t size, int fd);
	void *ctx;
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

/* A request to an init that waits for its reply. */
struct init_conn_ask {
	struct init_conn_ask *next;
	uint32_t seq;
	uint64_t due;  /* ms of the loop's clock */
	uint64_t last; /* the same, whatever is said meanwhile */
	void (*fn)(void *ctx, struct init_reply *a,
		   const struct warren_error *err); /* a: NULL */
	void *ctx;
};

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

struct sandbox {
	struct service *service;
	struct sandbox *hash_next;
	struct sandbox_row row; /* as it is in the store */
	struct sandbox_waiter *waiters;
	struct loop_task waiters_task; /* tells those who reached what they waited for */
	struct loop_task broken_task;  /* a journal of it lies: journal_limit.c */

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
	uint32_t *disowned; /* execs that may have started, and nobody was told of */
	size_t n_disowned;

	struct fair_quota_lease descriptors; /* for its line */
	struct fair_quota_lease output;      /* for its journals, as `journal_bytes` */
	uint64_t journal_bytes; /* that its journals have, and may yet take */

	struct exec *execs; /* alive, or in use */
	struct session *sessions;
	uint32_t last_number;
	uint64_t oom_kills; /* in execs that have ended, as its init says */
	unsigned n_kept;    /* execs in the store */

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
	struct files *files;       /* users of its files */
	struct file_queue *file_queue; /* requests about files; NULL: there were none */
	uint64_t created;              /* ns, monotonic: for the figures */
	int failure;                   /* errno of a making that failed */
};

struct exec {
	unsigned refs;
	struct service *service;
	struct sandbox *sandbox; /* NULL: it is gone */
	struct exec *next;
	struct fair_quota_lease descriptors, terminal;
	uint64_t journal_room; /* what of sandbox->journal_bytes is reserved for it */
	struct exec_row row;
	int journal;       /* -1: not open */
	uint64_t capacity; /* that init was told; 0: an earlier process told it */
	int notify;        /* an eventfd, while it runs; -1 */
	int input;         /* write end of stdin, or the terminal; -1 */
	int poke;          /* commands of a session go there; -1 */
	bool listed;       /* in sandbox->runs */
	bool counted;      /* in sandbox->n_running */
	bool attached;
	bool wants_attach; /* reconnect.c: its turn has not come yet */
	bool input_ended;  /* its stdin was closed at the request of a client */
	bool starting;     /* init has not answered yet */
	bool lost;         /* its sandbox ended before it did */
	bool unsaved;      /* it ended, and that is not in the store yet: disk.c */
	struct loop_watch *watch;
	bool lingers; /* it ended, and there may be more output: the list keeps it */
	struct exec_watcher *watchers;
	struct exec_waiter *waiters;
	struct exec_holder *holders;
	uint64_t held_at; /* the cursor that init was told; UINT64_MAX: none */
	struct loop_timer *hold_timer; /* init could not be told; NULL */
	struct exec_holder first; /* from the start on, for a reader that is to come */
	struct loop_timer *first_timer;
	struct journal_hint end; /* where it ended when that was last asked */
	struct net_loop *loop;
	struct exec_stdin *feeds; /* on their way into stdin */
	struct loop_watch *feed_watch;
	uint64_t started; /* ns, monotonic */
};

struct service {
	struct look_queue *looks; /* look.c */
	struct net_loop *loop;
	struct db *db;
	int journals;
	uint64_t journal_default, journal_max;
	unsigned execs_max;
	const char *const *backends;
	struct warden_conn warden_conn;
	bool closing; /* nothing that ends now is known to have failed */
	struct sandbox *sandboxes[SANDBOX_BUCKETS];
	size_t n_sandboxes;
	struct sandbox *asking;
	struct loop_timer *asking_timer;
	struct loop_timer *tidy_timer;
	struct loop_timer *journal_timer; /* journal_limit.c */
	struct loop_timer *disk_timer;    /* disk.c */
	bool disk_full, output_by_disk;
	uint64_t disk_left, disk_size; /* bytes */
	unsigned disk_turn;
	size_t n_unsaved; /* results that wait to be written */
	size_t journal_turn;
	struct journal_pool *journal_pool;
	struct removals *removals;
	struct sweep *sweep; /* under way; NULL */
	bool reuse;          /* of journals, see journal_pool.c */
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
	struct event_listener *listeners;
	void (*note)(void *ctx, const char *text); /* NULL: there is no log */
	void *note_ctx;
	struct pull *pulls; /* under way or waiting, the oldest first */
	struct metrics metrics;
	struct fair_quota watches,
		watched;           /* inotify(7): instances, and directories or files */
	struct fair_quota screens; /* bytes of them in memory: session_terminal.c */
	struct permit permit;      /* of the request that is being handled */
	struct fair_quota shares[LEASE_KIND_MAX];
	struct share_denial denial;   /* the last one */
	uint64_t journal_total;       /* bytes that the journals of a sandbox may have */
	char stock[1024][ID_LEN + 1]; /* ids of parts that are ready */
	size_t n_stock;
	char marker_key[65]; /* session_marker.c */
};

/* A write that failed is survived where what it says can be found again; it is counted. */
static inline void survive(struct service *s, int r)
{
	s->metrics.store_errors += r < 0;
}

/* event.c */
int event_open(struct service *s, struct warren_error *err);
void event_close(struct service *s);
/* Of a sandbox that has no sandbox (yet). */
void event_emit_row(struct service *s, enum event_type type,
		    const struct sandbox_row *row, const char *object, const char *reason,
		    const struct warren_result *result);

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

/*
 * Within such a transaction: its sandbox ends, and with it all execs and sessions of which
 * no end was told.
 */
int event_emit_ends(struct sandbox *sandbox, const char *why, struct warren_error *err);

/* gc.c */
int tidy_open(struct service *s);
void tidy_close(struct service *s);
/* Something was left that must be put right, as soon as that is possible. */
void service_untidy(struct service *s);

/* prune.c */
int prune_open(struct service *s);
void prune_close(struct service *s);

/* journal_limit.c */
int journal_limit_open(struct service *s);
void journal_limit_close(struct service *s);
/* Whether its journal is no larger than agreed; else its sandbox is lost. */
bool exec_check_journal(struct exec *exec);
/* It cannot be read: its sandbox is lost, by the task of its sandbox. */
void exec_journal_broken(struct exec *exec);
void sandbox_journal_broken(void *ctx);

/* disk.c */
int disk_open(struct service *s);
void disk_close(struct service *s);
/* May results be forgotten for the output of a new exec? -EAGAIN: there is room by now. */
int disk_may_forget(struct service *s);
/* May something be added to the disk? -ENOSPC. */
int disk_admit(struct service *s, struct warren_error *err);
/* It has ended: in the store, or kept until it can be. */
void exec_save_result(struct exec *exec);
void exec_forget_unsaved(struct exec *exec);

/* journal_pool.c: an empty file for output, by the name @name; its descriptor, or -errno. */
int journal_pool_open(struct service *s);
void journal_pool_close(struct service *s);
int journal_pool_take(struct service *s, const char *name);
/* The file @name is not wanted any more; -errno: it is still there. From any thread. */
int journal_pool_return(const struct service *s, const char *name);

/* journal_remove.c: the journal @name, which no exec has any more; soon, by another thread. */
int remove_open(struct service *s);
void remove_close(struct service *s);
void exec_remove_journal(struct service *s, const char *name);

/* journal_sweep.c: journals that no exec has are looked for and removed, in time. */
void sweep_start(struct service *s);
void sweep_close(struct service *s);

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
 * Memory that grows: @bytes in all, in steps. What is small is free of it. -EUSERS, -ENOMEM: there
 * is no room for so many; @lease is as it was.
 */
int lease_memory(struct service *s, const char *tenant, uint64_t bytes,
		 struct fair_quota_lease *lease, struct warren_error *err) MUST_CHECK;

/* permit.c: -EKEYREVOKED, -EKEYEXPIRED: nothing may begin on behalf of that token any more. */
int permit_check(struct service *s, const struct permit *p,
		 struct warren_error *err) MUST_CHECK;

/* journals.c */
/* Room for the journal of an exec that is to start; -EUSERS: there is none, whatever is forgotten. */
int journals_reserve(struct exec *exec, uint64_t capacity, struct warren_error *err);
/* It is not written to any more: what it has is what counts. */
void journals_settle(struct exec *exec);
/* It was never started, and has no journal. */
void journals_drop(struct exec *exec);
/* Forget the oldest that ended while there are too many. */
void journals_forget(struct sandbox *sandbox);
/* The shell of a session that was closed: once it has ended, nobody asks for it any more. */
void journals_forget_closed(struct sandbox *sandbox, const char *exec,
			    const char *journal);
/* Found again: one that ended, or that is @run. */
void journals_restore(struct sandbox *sandbox, const struct exec_row *row,
		      struct exec *exec);

/* warden_conn.c */
int warden_conn_open(struct service *s, int sock, struct warren_error *err);
void warden_conn_close(struct service *s);
/* -ESHUTDOWN: the warden is gone, -ENOMEM: @fn is not called. */
int warden_conn_ask(struct service *s, void *msg, size_t size,
		    void (*fn)(void *ctx, const struct warren_error *err,
			       const char *data, size_t size, int fd),
		    void *ctx);
/* The same about a sandbox: @msg begins as struct warden_proto_sandbox, which gets its id and backend. */
int warden_conn_ask_of(const struct sandbox *sandbox, void *msg, size_t size,
		       void (*fn)(void *ctx, const struct warren_error *err,
				  const char *data, size_t size, int fd),
		       void *ctx);

/* pool_ids.c */
struct warden_proto_pool;
void pool_ids_hear(struct service *s, const struct warden_proto_pool *msg, size_t size);
/* Rows of the native backend get ids of parts, the first ones: those before the one returned. */
size_t pool_ids_take(struct service *s, struct sandbox_row *rows, size_t n);
/* They were not used. */
void pool_ids_return(struct service *s, const struct sandbox_row *rows, size_t n);

/* init_conn.c */
/* Speak over @conn (taken), which is described by @text. */
int init_conn_open(struct sandbox *sandbox, int conn, const char *text, size_t size,
		   struct warren_error *err);
/* All that wait hear @why. */
void init_conn_close(struct sandbox *sandbox, const struct warren_error *why);
int init_conn_ask(struct sandbox *sandbox, const struct init_request *q,
		  void (*fn)(void *ctx, struct init_reply *a,
			     const struct warren_error *err),
		  void *ctx, struct warren_error *err);
int init_conn_ask_struct(struct sandbox *sandbox, const void *msg, size_t size, int fd,
			 void (*fn)(void *ctx, struct init_reply *a,
				    const struct warren_error *err),
			 void *ctx, struct warren_error *err);
/* Those whose init does not answer are lost. */
void init_conn_check_due(struct service *s);
/* Without an answer; -errno when it could not be sent. */
int init_conn_tell(struct sandbox *sandbox, const void *msg, size_t size);
/* There is no line: why, and whether to try again. */
int init_conn_refuse(const struct sandbox *sandbox, struct warren_error *err);

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
/* Attach to all execs that run; @done with 0 when all have been asked. */
void sandbox_attach_all(struct sandbox *sandbox, service_done_fn done, void *ctx);
/* It may run, and whoever asked for it was told that it does not: kill it when that is possible. */
void sandbox_disown(struct sandbox *sandbox, uint32_t exec);
void reconnect_sandbox_gone(struct sandbox *sandbox);
/* sandbox_ops.c: sandbox_reconnect(), when nothing else happens to it. */
void sandbox_reconnect_in_turn(struct sandbox *sandbox);
/* restore.c: a connection to its init is here (@fd is taken); it is as the store has it. */
int sandbox_take_up(struct sandbox *sandbox, const char *data, size_t size, int fd,
		    service_done_fn done, void *ctx, struct warren_error *err);
/* How it ended, if its journal says so. */
bool exec_finish_by_journal(struct exec *exec);

/* sandbox.c */
struct sandbox *sandbox_new(struct service *s, const struct sandbox_row *row);
void sandbox_free(struct sandbox *sandbox);
int sandbox_refresh(struct sandbox *sandbox, struct warren_error *err);
/* The store says that it is @to by now. */
void sandbox_moved(struct sandbox *sandbox, enum sandbox_state to);
/* The only one that changes a sandbox's state; in the store first. */
int sandbox_move(struct sandbox *sandbox, enum sandbox_state to, const char *error,
		 struct warren_error *err);
/* Its init is gone without having been told to, or counts as gone: mute, late, out of protocol. */
void sandbox_lost(struct sandbox *sandbox, const struct warren_error *why);
/* sandbox_ops.c: kill what there may be of it, and let it be `failed` then. */
void sandbox_end(struct sandbox *sandbox, const struct warren_error *why);
void sandbox_unmake(struct sandbox *sandbox, service_done_fn done, void *ctx);
/* As sandbox_delete() and sandbox_pause(), with the reason that is told. */
void sandbox_delete_for(struct sandbox *sandbox, const char *why, service_done_fn done,
			void *ctx);
void sandbox_pause_for(struct sandbox *sandbox, const char *why, service_done_fn done,
		       void *ctx);
void sandbox_arm(struct sandbox *sandbox);
void sandbox_touch(struct sandbox *sandbox);
/* Whether it was paused for being idle, by its row. */
void sandbox_read_pause(struct sandbox *sandbox);
/* Nobody has used it for as long as it was to be awake. */
bool sandbox_is_idle(const struct sandbox *sandbox);
/* The user of an exec or file, asked for inside if need be. */
void sandbox_find_user(struct sandbox *sandbox, const char *text,
		       void (*fn)(void *ctx, const struct initclient_user *user,
				  const struct warren_error *err),
		       void *ctx);

/* sandbox_ops.c */
void sandbox_next_job(struct sandbox *sandbox);

/* sandbox_create.c */
void sandbox_make(struct sandbox *sandbox, const struct warren_spec *spec,
		  const struct sandbox_source *source);
/* A pull is not waited for: it shall be deleted. */
void sandbox_make_cancel(struct sandbox *sandbox);

/* sandbox_spec.c */
void spec_read_idle(struct sandbox *sandbox);
void spec_get_limits(struct sandbox *sandbox, struct warren_limits *ret);
/* In the store, charged by the difference. */
int spec_set_limits(struct sandbox *sandbox, const struct warren_limits *limits,
		    struct warren_error *err);

/* session_marker.c */
int session_marker_key_open(struct service *s, struct warren_error *err);
void session_marker_make(const struct service *s, const char *session, uint64_t serial,
			 uint8_t ret[16]);

/* session.c */
void session_sandbox_gone(struct sandbox *sandbox);
/* One that is called so, be it only about to be opened. */
struct session *session_named(struct sandbox *sandbox, const char *name);
bool session_is_open(const struct session *session);
struct session_terminal **session_terminal_of(struct session *session);
struct sandbox *session_sandbox(const struct session *session);
/* Wait for what runs, as if it had been started for @command; false: nothing does. */
bool session_join(struct session *session, struct session_command *command);
/* SIGKILL to what a command started, with @all to what it put in the background, too. */
void session_stop(struct session *session, bool all);

/* session_terminal.c */
void session_terminal_gone(struct session_terminal *c);

int session_restore(struct sandbox *sandbox, const struct session_row *row,
		    struct exec *exec, struct warren_error *err);

/* exec_control.c: the processes of an exec; @fn once, with none when that cannot be told. */
void exec_list(struct exec *exec,
	       void (*fn)(void *ctx, const struct proto_process *list, size_t n),
	       void *ctx);
void exec_signal_one(struct exec *exec, int sig, int pid, service_done_fn done,
		     void *ctx);

/* For what nobody waits for. */
void service_ignore(void *ctx, int r, const struct warren_error *err);

/*
 * file_worker.c: a request about files, whose bytes and descriptors are taken. Those of the same
 * @order (NULL: none) are done one after another. @fn comes once, at once if it fails.
 */
typedef void (*file_answer_fn)(void *ctx, struct init_reply *a,
			       const struct warren_error *err);
void file_queue_ask(struct sandbox *sandbox, const void *order,
		    struct init_request *request, file_answer_fn fn, void *ctx);
/* More can be done than before, or less. */
void file_queue_turn(struct sandbox *sandbox);
/* All that wait hear @why. */
void file_queue_close(struct sandbox *sandbox, const struct warren_error *why);
void file_queue_free(struct sandbox *sandbox);

/* files.c */
uint64_t files_descriptors(const struct sandbox *sandbox);
void files_sandbox_gone(struct sandbox *sandbox);

/* exec.c */
/* With strings of its own; argv may be NULL, and is then empty. */
int exec_start_copy(struct exec_start *to, const struct exec_start *from);
void exec_start_done(struct exec_start *s);
struct exec *exec_load(struct sandbox *sandbox, const struct exec_row *row);
/* Whether there was such an exec. */
bool exec_ended(struct sandbox *sandbox, const struct proto_exited *msg);
void exec_finish(struct exec *exec, const struct warren_result *result);
/* Its end, and the events that tell of it, into the store. */
int exec_record_end(const struct exec *exec, struct warren_error *err);
void exec_sandbox_gone(struct sandbox *sandbox);
int exec_open_journal(struct exec *exec, struct warren_error *err);
/* Where to write to it, as init gave it. */
void exec_take_streams(struct exec *exec, struct init_reply *a);
void exec_ask(struct exec *exec, const void *msg, size_t size, const char *what,
	      service_done_fn done, void *ctx);
/* exec_output.c: of one that is about to be started so, until somebody else holds it, or nobody came. */
bool exec_hold_first(struct exec *exec);
void exec_hold_first_end(struct exec *exec);
/* The line is a new one: init knows of no holds. */
void exec_hold_again(struct exec *exec);
void exec_attach(struct exec *exec, service_done_fn done, void *ctx);
/* exec_stdin.c: nothing more goes into its stdin; who waits for that hears it. */
void feed_stop(struct exec *exec);
void exec_tell_watchers(struct exec *exec);
/* Of one that ended: whether output may still come, and it will be heard of. */
bool exec_linger(struct exec *exec);
int row_copy_exec(struct exec_row *to, const struct exec_row *from);

#endif /* SERVICE_CORE_INTERNAL_H */
