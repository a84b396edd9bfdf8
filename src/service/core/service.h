/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service.h - what the api process knows and does: sandboxes, their execs, who may use them
 *
 * Theory of operation
 *
 * One thread, one loop. The store (db/db.h) is the truth of what exists
 * and was acknowledged; what is in memory is a copy of it, and the connections
 * that a program needs to do something with it:
 *
 *	warden_conn.c	 to the warden, which makes and unmakes sandboxes for us
 *	init_conn.c	 to the init of each sandbox, which starts, opens and connects; init_conn_out.c,
 *		 what waits for room in it; reconnect.c, when it ends
 *	sandbox.c	 sandboxes: their states, their making and unmaking, their time
 *	sandbox_create.c	 their making, with a pull of the image before it where it is missing
 *	image.c	 images: asked for, pulled once for all who want the same
 *	exec.c	 execs: started, written to, signalled, ended
 *	exec_output.c what an exec has written, for readers that come and go
 *	journal_remove.c journals that nobody wants any more, removed by a thread
 *	journal_sweep.c	 journals that no exec has, looked for
 *	event.c	 what happened, for those who listen
 *	restore.c what a former process left, found again
 *	disk.c	 whether there is room on the disk, and results that wait for some
 *	gc.c	 what could not be undone when it was time to, undone later
 *
 * An operation is written down before it is begun and answered after it was
 * done, so that a process that is killed leaves nothing that the next one
 * cannot finish: a sandbox in state `creating` without an answer is unmade, one
 * in `deleting` is unmade to its end, an exec whose end nobody heard has it in
 * its journal.
 *
 * Whatever comes from an init is untrusted: it harms its own sandbox alone.
 *
 * Functions that take `done` answer later, from the loop, exactly once, also
 * when the sandbox ends meanwhile; the others answer at once.
 */
#ifndef SERVICE_CORE_SERVICE_H
#define SERVICE_CORE_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "db/db.h"
#include "proto/journal_read.h"

struct net_loop;
struct service;
struct sandbox;
struct exec;

struct service_options {
	struct net_loop *loop;
	struct db *db;
	int warden;   /* the connection; taken */
	int journals; /* the directory of journals; taken */
	bool reuse; /* journals for other sandboxes: no init has the user that owns them */
	uint64_t journal_default, journal_max; /* bytes kept of an exec's output */
	unsigned execs_max;                    /* kept in the store for each sandbox */
	/* Where sandboxes may be, NULL-terminated; borrowed. */
	const char *const *backends;
	/* Of inotify(7), for all tenants: instances, and what they watch; 0: what is usual. */
	uint64_t watches_max, watched_max;
	uint64_t
		journal_total; /* bytes of a sandbox's journals together; 0: what is usual */
	uint64_t
		output_max; /* bytes of all journals; 0: half of what the disk has for them */
	uint64_t descriptors_max; /* for sandboxes, execs and files; 0: no limit */
};

typedef void (*service_done_fn)(void *ctx, int r, const struct warren_error *err);

int service_new(const struct service_options *options, struct service **ret,
		struct warren_error *err) MUST_CHECK;
struct service *service_free(struct service *s);
/* Find again what a former process left. @done when all of it is there. */
int service_restore(struct service *s, service_done_fn done, void *ctx,
		    struct warren_error *err) MUST_CHECK;
/* All sandboxes; @done when they are gone. */
void service_delete_all(struct service *s, service_done_fn done, void *ctx);
/*
 * clock.c: milliseconds since 1970, by a clock of the service's own: what expires does so by it, and it goes on
 * steadily whatever the time of day is set to, over restarts too. The store has its times.
 */
int64_t service_time(void);
/* The time of day of such a time, for people. */
int64_t service_wall(int64_t time);
/* Before the first of them: go on where a former process of this state was; @boot: the boot's id, or "". */
int service_clock_open(struct db *db, const char *boot,
		       struct warren_error *err) MUST_CHECK;
/* From time to time, and at the end: what the next boot will need. */
int service_clock_save(struct db *db, struct warren_error *err) MUST_CHECK;
struct db *service_db(struct service *s);
struct net_loop *service_loop(struct service *s);
/* Whether the warden does what it is for: it is asked, and has two seconds. */
void service_check_warden(struct service *s, service_done_fn done, void *ctx);
/* Whether its disk has room, and all results are written down. */
bool service_disk_ok(const struct service *s);
/* How many sandboxes @backend has. */
size_t service_count_at(const struct service *s, const char *backend);
/* What @backend can do here, as JSON: an array of features. */
void service_probe(struct service *s, const char *backend,
		   void (*done)(void *ctx, int r, const char *json,
				const struct warren_error *err),
		   void *ctx);
/* A sentence for the administrator's log, which no client gets to see. */
void service_on_note(struct service *s, void (*fn)(void *ctx, const char *text),
		     void *ctx);
/* What the last error EUSERS was about: a tenant or a sandbox has its share of it. */
struct share_denial {
	const char *quota; /* NULL: there was none */
	uint64_t used, maximum;
};

/* What the service holds for a sandbox, beside what the sandbox itself has. */
struct sandbox_held {
	uint64_t output;      /* bytes of journals, and what they may yet become */
	uint64_t descriptors; /* for its line, its execs and the uses of its files */
};

void sandbox_held(const struct sandbox *sandbox, struct sandbox_held *ret);
const struct share_denial *service_denied(const struct service *s);
/* The warden is gone, and so must we be. */
void service_on_warden_end(struct service *s, void (*fn)(void *ctx), void *ctx);

/* ---------------------------------------------------------------- sandboxes */

/* The sandbox @id if it is @owner's (NULL: whosever); else NULL. */
struct sandbox *sandbox_find(struct service *s, const char *owner, const char *id);
/*
 * The id of the sandbox that @word means: its id, its name, or the beginning of its id, in this
 * order. @owner NULL: anybody's, and of one name those of @first. -ENOENT; -ENOTUNIQ: several.
 */
int sandbox_resolve(struct service *s, const char *owner, const char *first,
		    const char *word, char ret_id[ID_LEN + 1],
		    struct warren_error *err) MUST_CHECK;
/* The copy of its row: borrowed, until the next call that changes it. */
const struct sandbox_row *sandbox_row(const struct sandbox *sandbox);
struct service *sandbox_service(const struct sandbox *sandbox);

/* Where its image comes from when it is not here. */
enum sandbox_pull {
	BOX_PULL_MISSING,
	BOX_PULL_ALWAYS,
	BOX_PULL_NEVER,
};

struct sandbox_source {
	enum sandbox_pull pull;
	const char *platform; /* NULL: this machine's */
	bool theirs;          /* the backend has images of its own: nothing is pulled */
	bool may_not_pull;    /* the client; what is not here is refused */
};

/*
 * Make a sandbox of @spec, which the row describes. Written down before this
 * returns: 0, 1 when the request was made before (*@ret is what it made, NULL
 * when that is gone), or -errno as db_insert_sandboxes(). sandbox_wait() tells how
 * it went.
 */
int sandbox_create(struct service *s, struct sandbox_row *row,
		   const struct warren_spec *spec, const struct sandbox_source *source,
		   const struct db_request *request, struct sandbox **ret,
		   struct warren_error *err) MUST_CHECK;
/* The same for several; all are written down or none. @ret has room for @n. */
int sandbox_create_many(struct service *s, struct sandbox_row *rows,
			const struct warren_spec *specs,
			const struct sandbox_source *sources, size_t n,
			const struct db_request *request, struct sandbox **ret,
			struct warren_error *err) MUST_CHECK;

/*
 * Tell me when it is in one of @states (bits, 1U << SANDBOX_RUNNING; SANDBOX_GONE:
 * deleted), or after @ms. Called from the loop, with the state or -ETIMEDOUT.
 * A waiter is the caller's memory, until it was called or sandbox_wait_cancel()ed.
 */
#define SANDBOX_GONE SANDBOX_STATE_MAX

struct sandbox_waiter {
	uint32_t states;
	void (*fn)(struct sandbox_waiter *w, struct sandbox *sandbox, int state);
	void *ctx;
	struct sandbox *sandbox; /* private from here on; NULL: not waiting */
	struct sandbox_waiter *next;
	struct loop_timer *timer;
	int reached;
};

void sandbox_wait(struct sandbox *sandbox, struct sandbox_waiter *w, uint64_t ms);
void sandbox_wait_cancel(struct sandbox_waiter *w);
/* The same, of him who alone knows of it: if it cannot be made, it is forgotten at once. */
void sandbox_wait_abandon(struct sandbox_waiter *w);

/* @done with -ESTALE when it is in no state for it. */
void sandbox_delete(struct sandbox *sandbox, service_done_fn done, void *ctx);
void sandbox_pause(struct sandbox *sandbox, bool pause, service_done_fn done, void *ctx);
/* A pause for which nothing is kept in memory; -EBUSY: what runs cannot be saved. */
void sandbox_checkpoint(struct sandbox *sandbox, service_done_fn done, void *ctx);
/* Is it paused that way? */
bool sandbox_is_saved(const struct sandbox *sandbox);
void sandbox_update(struct sandbox *sandbox, const struct warren_limits *limits,
		    service_done_fn done, void *ctx);
void sandbox_stats(struct sandbox *sandbox,
		   void (*done)(void *ctx, int r, const struct warren_stats *stats,
				const struct warren_error *err),
		   void *ctx);
/* Labels, time to live, idle time: the row is written and read again. */
int sandbox_set_labels(struct sandbox *sandbox, const struct db_label *labels, size_t n,
		       struct warren_error *err);
/* -ENOTUNIQ: its owner has another one of that name. */
int sandbox_set_name(struct sandbox *sandbox, const char *name, struct warren_error *err);
int sandbox_set_times(struct sandbox *sandbox, int64_t expires_at,
		      uint64_t idle_timeout_ms, struct warren_error *err);
/* "pause" or "delete", NULL: as it is; and 0, 1, or -1: as it is. */
int sandbox_set_idle(struct sandbox *sandbox, const char *on_idle, int wake_on_use,
		     struct warren_error *err);
/* The errno of a making that failed; 0: none. */
int sandbox_failure(const struct sandbox *sandbox);

/*
 * A use of the sandbox: it is not idle, and if it was paused for being so, it is
 * resumed. @done at once when it runs, -ESTALE when it is in no state to be used.
 */
void sandbox_use(struct sandbox *sandbox, service_done_fn done, void *ctx);

/*
 * What is asked for from now on is on behalf of @token, which expires at @expires_at (0: never):
 * what has to wait begins only if the token is good then. NULL, or "": nobody's, which is always
 * good. Set before a request is handled, and cleared after.
 */
void service_permit(struct service *s, const char *token, int64_t expires_at);

/*
 * Somebody is at it, through a connection of his own: until sandbox_disengage() it is
 * not idle. By id, since it may be gone by then.
 */
void sandbox_engage(struct sandbox *sandbox);
void sandbox_disengage(struct service *s, const char *id);

/* Where what is started in it begins, and what relative paths are relative to. */
const char *sandbox_workdir(const struct sandbox *sandbox);
/* A file without a name for what arrives before it is known where it goes; or -errno. */
int service_spool(struct service *s);

/* A port of it, by init. */
typedef void (*sandbox_fd_fn)(void *ctx, int fd, const struct warren_error *err);
void sandbox_connect_port(struct sandbox *sandbox, uint16_t port, sandbox_fd_fn done,
			  void *ctx);

/* ------------------------------------------------------------------- images */

enum image_verb {
	IMAGE_LIST,
	IMAGE_INSPECT,
	IMAGE_REMOVE,
	IMAGE_REMOVE_FORCED,
};

/*
 * @done with what warren-image(1) prints, a JSON array ("" of a removal). -ENOMEDIUM: it
 * is not here; -EEXIST: it has further names.
 */
void image_ask(struct service *s, enum image_verb verb, const char *ref,
	       void (*done)(void *ctx, int r, const char *json, size_t size,
			    const struct warren_error *err),
	       void *ctx);

struct image_layer {
	char digest[80];
	char phase[16]; /* as in openapi.yaml */
	uint64_t done, total;
	uint64_t change; /* counts up, over all layers of a pull */
};

/*
 * Who waits for a pull, or watches it. Several want the same image: it is pulled
 * once. Called from the loop with 1 when something has changed, and last with 0, or
 * with -errno: -ENOMEDIUM when the registry has no such image, -ECOMM for whatever else it
 * did wrong. A waiter is the caller's memory, until then or until image_leave().
 */
struct image_waiter {
	void (*fn)(struct image_waiter *w, int r, const struct warren_error *err);
	void *ctx;
	/* Once it is here, in a backend that has images of its own: what it is, as JSON; borrowed. */
	const char *found;
	size_t found_size;
	struct pull *pull; /* private from here on; NULL: it does not wait */
	struct image_waiter *next;
};

#define IMAGE_IF_MISSING (1U << 0)
#define IMAGE_PERSISTENT (1U << 1) /* goes on when nobody waits for it any more */

/* @backend: one that has images of its own; NULL: into our store. @tenant has a share of the turns. */
int image_pull(struct service *s, const char *tenant, const char *backend,
	       const char *ref, const char *platform, unsigned flags,
	       struct image_waiter *w, struct warren_error *err) MUST_CHECK;
void image_leave(struct image_waiter *w);
/* How far it is; borrowed, until the loop goes on. */
const struct image_layer *image_layers(const struct image_waiter *w, size_t *ret_n);

/* -------------------------------------------------------------------- execs */

struct exec_start {
	const char *const *argv; /* NULL-terminated */
	const char *const *env;  /* NULL: none */
	bool env_only;           /* and nothing of the sandbox's */
	const char *cwd, *user;  /* NULL: the sandbox's */
	bool pty;
	uint16_t rows, cols;
	bool input;       /* stdin is a pipe that can be written to */
	bool session;     /* the shell of one */
	const char *name; /* of that, as its user calls it; NULL */
	bool control;     /* for src/shellproto: commands in, results as stream 3 */
	bool hold;        /* its output, for who is about to read it by exec_hold() */
	uint64_t timeout_ms;
	uint64_t journal;            /* bytes kept; 0: the default */
	struct warren_limits limits; /* of this exec alone; 0: those of the sandbox */
};

typedef void (*exec_fn)(void *ctx, struct exec *exec, const struct warren_error *err);

/*
 * Start it; @done with the exec once its program was executed, or with NULL and
 * why it could not be. The exec stays until its sandbox is deleted.
 */
void exec_start(struct sandbox *sandbox, const struct exec_start *start, exec_fn done,
		void *ctx);
/* The exec @id of @sandbox, running or not, or NULL. The reference is the caller's: exec_unref(). */
struct exec *exec_of_sandbox(struct sandbox *sandbox, const char *id);
struct exec *exec_ref(struct exec *exec);
struct exec *exec_unref(struct exec *exec);
const struct exec_row *exec_row(const struct exec *exec);
struct sandbox *exec_sandbox(const struct exec *exec); /* NULL: it is gone */
/* Its sandbox ended before it did: how is not known. */
bool exec_lost(const struct exec *exec);
/*
 * Where its output begins and ends at present; both 0 if that cannot be read: -errno. 1: it ends
 * there at the earliest; its init does not tell, and who asks again will be told more.
 */
int exec_extent(struct exec *exec, uint64_t *ret_from, uint64_t *ret_to);

/* Its journal, for who reads it on another thread by journal_read(); or -errno. */
int exec_dup_journal(struct exec *exec);

struct exec_waiter {
	void (*fn)(struct exec_waiter *w,
		   struct exec *exec); /* it ended, or its sandbox */
	void *ctx;
	struct exec *exec; /* private from here on */
	struct exec_waiter *next;
};

void exec_wait(struct exec *exec, struct exec_waiter *w);
void exec_wait_cancel(struct exec_waiter *w);

/* @whom is an enum warren_whom. */
void exec_signal(struct exec *exec, int sig, int whom, service_done_fn done, void *ctx);
void exec_close_input(struct exec *exec, service_done_fn done, void *ctx);
int exec_resize(struct exec *exec, uint16_t rows, uint16_t cols,
		struct warren_error *err);
/* The size of its terminal; false: it has none any more. Who watches is told of changes. */
bool exec_size(const struct exec *exec, uint16_t *ret_rows, uint16_t *ret_cols);
/* Where to write to its stdin or terminal; borrowed. @done with -1 when it has none. */
void exec_input(struct exec *exec, sandbox_fd_fn done, void *ctx);
/* Write to it, and with @end close stdin; @done when it is in the pipe. */
void exec_feed(struct exec *exec, const void *data, size_t size, bool end,
	       service_done_fn done, void *ctx);
int exec_poke_fd(const struct exec *exec);

/* ----------------------------------------------------------------- sessions */

struct session;
typedef void (*session_fn)(void *ctx, struct session *session,
			   const struct warren_error *err);

/*
 * @shell by name or path, NULL: bash, or sh where there is none; at a terminal (start->pty) bash
 * it must be. @done when it takes commands.
 */
void session_open(struct sandbox *sandbox, const struct exec_start *start,
		  const char *shell, session_fn done, void *ctx);
struct session *session_find(struct sandbox *sandbox, const char *id);
/* The one after @after; NULL: the first; NULL is returned after the last. */
struct session *session_next(struct sandbox *sandbox, struct session *after);
const struct session_row *session_row(const struct session *session);
/* That of its exec: unlike those of all others in the sandbox, and greater than of those before it. */
uint64_t session_number(const struct session *session);
const char *session_cwd(const struct session *session);
const char *session_state(const struct session *session); /* "idle", "busy", "ended" */

struct session_result {
	uint64_t serial;
	int exit_code;
	const char *cwd; /* NULL: it ended */
	uint64_t lost, wall_usec;
	bool timed_out, interrupted, syntax_error, ended;
};

/* A command that somebody waits for; his memory, until result() or session_forget(). */
struct session_command {
	void (*output)(struct session_command *c, int stream, const void *data, size_t n);
	/* Here @lost bytes are missing, of which stream is not known. */
	void (*gap)(struct session_command *c, uint64_t lost);
	void (*result)(struct session_command *c, const struct session_result *result);
	void *ctx;
	bool blocked;            /* no more output until session_go_on() */
	struct session *session; /* private */
};

/* -EBUSY: one runs; -EPIPE: it has ended. @timeout_ms 0: none. */
int session_run(struct session *session, const char *text, size_t n, uint64_t timeout_ms,
		struct session_command *command, struct warren_error *err);
void session_forget(struct session_command *command);
void session_go_on(struct session_command *command);
void session_interrupt(struct session *session, int sig);
/* All that it started is killed. */
void session_close(struct session *session, service_done_fn done, void *ctx);
/* At a terminal: what is typed while a command runs. */
void session_type(struct session *session, const char *text, size_t n);
/* Where its output is at present, in the journal of its exec. */
uint64_t session_cursor(const struct session *session);

/* ------------------------------------------------------------------- output */

/*
 * A piece of what an exec wrote, from @cursor on: as warren_exec_output(). @hint is this
 * reader's own, and zero at first. -EINPROGRESS (without an error): to find it takes longer
 * than others should wait; ask again in a later turn, by loop_later(). A watcher is told,
 * from the loop, that there may be more.
 */
int exec_output(struct exec *exec, uint64_t cursor, struct journal_hint *hint, void *buf,
		size_t size, struct warren_output *ret, struct warren_error *err);

struct exec_watcher {
	void (*fn)(struct exec_watcher *w);
	void *ctx;
	struct exec *exec; /* private from here on */
	struct exec_watcher *next;
};

int exec_watch(struct exec *exec, struct exec_watcher *w, struct warren_error *err);
void exec_watch_cancel(struct exec_watcher *w);

/*
 * From @cursor on nothing is dropped, for as long as it is held: an exec that
 * has filled its journal waits. Of several who hold, the slowest counts.
 */
struct exec_holder {
	uint64_t cursor;
	struct exec *exec; /* private from here on */
	struct exec_holder *next;
};

void exec_hold(struct exec *exec, struct exec_holder *h, uint64_t cursor);
/* What is before @cursor was read. */
void exec_hold_move(struct exec_holder *h, uint64_t cursor);
void exec_hold_cancel(struct exec_holder *h);

/* ------------------------------------------------------------------- events */

enum event_type {
	EVENT_SANDBOX_CREATED,
	EVENT_SANDBOX_STARTED,
	EVENT_SANDBOX_PAUSED,
	EVENT_SANDBOX_RESUMED,
	EVENT_SANDBOX_UPDATED,
	EVENT_SANDBOX_FAILED,
	EVENT_SANDBOX_DELETED,
	EVENT_EXEC_STARTED,
	EVENT_EXEC_FINISHED,
	EVENT_OOM,
	EVENT_SESSION_OPENED,
	EVENT_SESSION_CLOSED,
	EVENT_IMAGE_PULLED,
	EVENT_IMAGE_REMOVED,
	EVENT_TYPE_MAX,
};

struct event {
	uint64_t id;
	int64_t at;
	enum event_type type;
	char owner[DB_NAME_MAX + 1]; /* "": everybody's */
	char sandbox[ID_LEN + 1];    /* "": of none */
	char object[ID_LEN + 1];     /* an exec or session; "" : none */
	char *image;                 /* of IMAGE_*: what was asked for; NULL */
	int state;                   /* of the sandbox after it; -1: deleted, or none */
	char reason[32];             /* a word; "": there was no choice */
	bool has_result;
	struct warren_result result; /* of EXEC_FINISHED, if it is known */
};

const char *event_type_name(enum event_type type);
void event_emit(struct service *s, enum event_type type, const struct sandbox *sandbox,
		const char *object, const struct warren_result *result);
/* Of an image, which is nobody's own. */
void event_emit_image(struct service *s, enum event_type type, const char *ref);
/*
 * Events are numbered, over all processes that the state has had. What is kept comes after
 * event_first(): of the last hour, but no more than a hundred thousand.
 */
uint64_t event_first(const struct service *s);
/* The next event after @id that is still kept, until this is called again; NULL: none. */
const struct event *event_after(struct service *s, uint64_t id);
uint64_t event_last(const struct service *s);

struct event_listener {
	void (*fn)(struct event_listener *l); /* there is a new one */
	void *ctx;
	struct event_listener *next, **prev; /* private */
};

void event_listen(struct service *s, struct event_listener *l);
void event_unlisten(struct event_listener *l);

/* ------------------------------------------------------------------ figures */

enum figure {
	FIGURE_CREATE, /* seconds from request to running */
	FIGURE_EXEC,   /* from request to its program's start */
	FIGURE_SESSION,
	FIGURE_MAX,
};

#define FIGURE_BUCKETS 14

struct histogram {
	uint64_t count[FIGURE_BUCKETS + 1];
	uint64_t sum_usec;
};

struct metrics {
	struct histogram latency[FIGURE_MAX];
	uint64_t created, failed, deleted, execs, denied, restored;
	uint64_t store_errors; /* that were survived */
	/* What the warden makes ahead: now, and by the creates so far. */
	uint64_t parts_ready, parts_wanted, parts_taken, parts_missed;
};

extern const uint64_t figure_bounds_usec[FIGURE_BUCKETS];
struct metrics *service_metrics(struct service *s);
void figure_add(struct service *s, enum figure f, uint64_t usec);

#endif /* SERVICE_CORE_SERVICE_H */
