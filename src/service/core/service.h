/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service.h - the state and operations of the api process: sandboxes, images, events,
 * access
 *
 * Theory of operation
 *
 * One thread, one loop. The database (db/db.h) is the truth about what exists and
 * was acknowledged; the memory holds a copy of it, and the connections to work with it:
 *
 *	warden_conn.c		to the warden, which creates and destroys sandboxes
 *	init_conn.c		to the init of each sandbox
 *	init_conn_out.c		requests that wait for space in it
 *	reconnect.c		what happens when it ends
 *	sandbox.c		sandboxes: states, creation, destruction, lifetime
 *	sandbox_create.c	creation, with a pull of a missing image
 *	image.c			images: each pulled once for all requests
 *	event.c			events, for listeners
 *	restore.c		finds the sandboxes of an earlier process again
 *	disk.c			whether the disk has free space
 *	gc.c			destroys later what could not be destroyed in time
 *
 * An operation is recorded before it begins and answered after it is done, so that a
 * killed process leaves nothing that the next one cannot finish: a sandbox in state
 * `creating` without an answer is destroyed, one in `deleting` is destroyed completely,
 * and the result of an exec is in its journal.
 *
 * Everything from an init is untrusted: it can harm only its own sandbox.
 *
 * The other rooms handle what happens in a sandbox; each has a header:
 * exec/exec.h, session/session.h, files/files.h. They use the core, which calls them by
 * hooks.h.
 *
 * Functions with `done` answer later, from the loop, exactly once, even if the sandbox
 * ends in the meantime; the others answer immediately.
 */
#ifndef SERVICE_CORE_SERVICE_H
#define SERVICE_CORE_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "base/waiter.h"
#include "db/db.h"

struct net_loop;
struct service;
struct service_room;
struct sandbox;

struct service_options {
	struct net_loop *loop;
	struct db *db;
	int warden;   /* the connection; taken */
	int journals; /* the directory of journals; taken */
	bool reuse;   /* journals for other sandboxes: no init has the user that owns them
		       */
	uint64_t journal_default, journal_max; /* bytes kept of an exec's output */
	unsigned execs_max;                    /* kept in the store for each sandbox */
	/* Where sandboxes may be, NULL-terminated; borrowed. */
	const char *const *backends;
	/* What takes part beside the core: service/rooms.h; borrowed. */
	const struct service_room *const *rooms;
	/*
	 * Of inotify(7), for all tenants: instances, and what they watch; 0: what is
	 * usual.
	 */
	uint64_t watches_max, watched_max;
	uint64_t journal_total; /* bytes of a sandbox's journals together; 0: what is
				   usual */
	uint64_t output_max;    /* bytes of all journals; 0: half of the space for them */
	uint64_t descriptors_max; /* for sandboxes, execs and files; 0: no limit */
};

typedef void (*service_done_fn)(void *ctx, int r, const struct warren_error *err);

int service_new(const struct service_options *options, struct service **ret,
		struct warren_error *err) MUST_CHECK;
struct service *service_free(struct service *s);
/* Restore the sandboxes of an earlier process. Calls @done when all are there. */
int service_restore(struct service *s, service_done_fn done, void *ctx,
		    struct warren_error *err) MUST_CHECK;
/* All sandboxes; @done when they are gone. */
void service_delete_all(struct service *s, service_done_fn done, void *ctx);
/*
 * clock.c: milliseconds since 1970, by the service's own clock. All expiry uses it, and
 * it runs steadily, even across restarts, whatever the time of day is set to. The
 * database stores its times.
 */
int64_t service_time(void);
/* The time of day of such a time, for people. */
int64_t service_wall(int64_t time);
/*
 * Call before the first use: continue from the time of the earlier process with this
 * state; @boot: the boot's id, or "".
 */
int service_clock_open(struct db *db, const char *boot,
		       struct warren_error *err) MUST_CHECK;
/* Call from time to time, and at the end: store what the next boot needs. */
int service_clock_save(struct db *db, struct warren_error *err) MUST_CHECK;
struct db *service_db(struct service *s);
struct net_loop *service_loop(struct service *s);
/* Whether the warden works: it gets a request, and two seconds to answer it. */
void service_check_warden(struct service *s, service_done_fn done, void *ctx);
/* Whether the disk has room, and all results are recorded. */
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
/* The quota of the last error EUSERS: a tenant or a sandbox has reached its share. */
struct share_denial {
	const char *quota; /* NULL: there was none */
	uint64_t used, maximum;
};

/* What the service holds for a sandbox, besides the sandbox's own resources. */
struct sandbox_held {
	uint64_t output;      /* bytes of journals, and what they may yet become */
	uint64_t descriptors; /* for its connection, its execs and its files in use */
};

void sandbox_held(const struct sandbox *sandbox, struct sandbox_held *ret);
const struct share_denial *service_denied(const struct service *s);
/* The warden is gone, and so must we be. */
void service_on_warden_end(struct service *s, void (*fn)(void *ctx), void *ctx);

/* ---------------------------------------------------------------- sandboxes */

/* The sandbox @id if it is @owner's (NULL: whosever); else NULL. */
struct sandbox *sandbox_find(struct service *s, const char *owner, const char *id);
/*
 * The id of the sandbox that @word refers to by its id, its name, or the beginning of its
 * id, tried in this order. @owner NULL: of any tenant, but names of others than @first
 * come last (db_find_sandbox()). -ENOENT; -ENOTUNIQ: several match.
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
	bool theirs;          /* the backend has its own images: nothing is pulled */
	bool may_not_pull;    /* the client may not: a missing image is an error */
};

/*
 * Create a sandbox from @spec, which the row describes. It is recorded before this
 * returns: 0; 1 if the request was made before (*@ret is the sandbox of that time, NULL
 * if it is gone); or -errno as for db_insert_sandboxes(). Use sandbox_wait() for the
 * outcome.
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
/*
 * The same, if no other client knows the sandbox: if its creation fails, it is removed at
 * once.
 */
void sandbox_wait_abandon(struct sandbox_waiter *w);

/* @done with -ESTALE when it is in no state for it. */
void sandbox_delete(struct sandbox *sandbox, service_done_fn done, void *ctx);
void sandbox_pause(struct sandbox *sandbox, bool pause, service_done_fn done, void *ctx);
/* A pause that keeps nothing in memory; -EBUSY: a process cannot be saved. */
void sandbox_checkpoint(struct sandbox *sandbox, service_done_fn done, void *ctx);
/* Whether it is paused that way. */
bool sandbox_is_saved(const struct sandbox *sandbox);
void sandbox_update(struct sandbox *sandbox, const struct warren_limits *limits,
		    service_done_fn done, void *ctx);
void sandbox_stats(struct sandbox *sandbox,
		   void (*done)(void *ctx, int r, const struct warren_stats *stats,
				const struct warren_error *err),
		   void *ctx);
/* The limits that sandbox_update() can change, as they are. */
void sandbox_limits(const struct sandbox *sandbox, struct warren_limits *ret);

/* What changes in the database alone. */
struct sandbox_change {
	const char *name;              /* NULL: unchanged */
	const struct db_label *labels; /* all that it has then */
	size_t n_labels;
	bool sets_labels;
	bool sets_times;
	int64_t expires_at;
	uint64_t idle_timeout_ms;
	const char *on_idle; /* "pause" or "delete"; NULL: unchanged */
	int wake_on_use;     /* 0 or 1; -1: unchanged */
};
/* All of it, or nothing. -ENOTUNIQ: its owner has another one of that name. */
int sandbox_change(struct sandbox *sandbox, const struct sandbox_change *change,
		   struct warren_error *err);
/* Would sandbox_change() succeed now? Changes nothing. */
int sandbox_change_check(const struct sandbox *sandbox,
			 const struct sandbox_change *change, struct warren_error *err);
/* The errno of a failed creation; 0: none. */
int sandbox_failure(const struct sandbox *sandbox);
/* Whether it was its main command that failed, and not the sandbox. */
bool sandbox_command_failed(const struct sandbox *sandbox);

/*
 * A use of the sandbox: it is not idle, and if it was paused for being so, it is
 * resumed. @done at once when it runs, -ESTALE when it is in no state to be used.
 */
void sandbox_use(struct sandbox *sandbox, service_done_fn done, void *ctx);

/*
 * The following requests are on behalf of @token, which expires at @expires_at (0:
 * never): a request that has to wait begins only if the token is still valid then. NULL,
 * or "": no token, which is always valid. Set before a request is handled, and cleared
 * after.
 */
void service_permit(struct service *s, const char *token, int64_t expires_at);

/*
 * A client uses it through a separate connection: until sandbox_disengage() it is not
 * idle. That takes an id, because the sandbox may be gone by then.
 */
void sandbox_engage(struct sandbox *sandbox);
void sandbox_disengage(struct service *s, const char *id);

/* The default working directory of commands, and the directory for relative paths. */
const char *sandbox_workdir(const struct sandbox *sandbox);
/* A file without a name, for data whose destination is not known yet; or -errno. */
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
 * A client that waits for a pull, or watches it. If several want the same image, it is
 * pulled once. Called from the loop with 1 when something has changed, and last with 0,
 * or with -errno: -ENOMEDIUM when the registry has no such image, -ECOMM for whatever
 * else it did wrong. A waiter is the caller's memory, until then or until image_leave().
 */
struct image_waiter {
	void (*fn)(struct image_waiter *w, int r, const struct warren_error *err);
	void *ctx;
	/*
	 * After a pull into a backend with its own images: the image, as JSON; borrowed.
	 */
	const char *found;
	size_t found_size;
	struct pull *pull; /* private from here on; NULL: it does not wait */
	struct image_waiter *next;
};

#define IMAGE_IF_MISSING (1U << 0)
#define IMAGE_PERSISTENT (1U << 1) /* continues even if no client waits for it */

/*
 * @backend: a backend with its own images; NULL: Warren's store. Tenants share the number
 * of pulls at a time.
 */
int image_pull(struct service *s, const char *tenant, const char *backend,
	       const char *ref, const char *platform, unsigned flags,
	       struct image_waiter *w, struct warren_error *err) MUST_CHECK;
void image_leave(struct image_waiter *w);
/* Its progress; borrowed, until the callback returns to the loop. */
const struct image_layer *image_layers(const struct image_waiter *w, size_t *ret_n);

/* ------------------------------------------------------------------- events */

enum event_type {
	EVENT_SANDBOX_CREATED,
	EVENT_SANDBOX_STARTED,
	EVENT_SANDBOX_PAUSED,
	EVENT_SANDBOX_RESUMED,
	EVENT_SANDBOX_STOPPED,
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
/* For an image, which belongs to no tenant. */
void event_emit_image(struct service *s, enum event_type type, const char *ref);
/*
 * Events are numbered, over all processes that the state has had. What is kept comes
 * after event_first(): of the last hour, but no more than a hundred thousand.
 */
uint64_t event_first(const struct service *s);
/* The next event after @id that is still kept, until this is called again; NULL: none. */
const struct event *event_after(struct service *s, uint64_t id);
uint64_t event_last(const struct service *s);

/* Calls @w with the service whenever there are new events. */
void event_listen(struct service *s, struct waiter *w);
void event_unlisten(struct waiter *w);

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
	/*
	 * Sandboxes that the warden prepares in advance: now, and as used by creates so
	 * far.
	 */
	uint64_t parts_ready, parts_wanted, parts_taken, parts_missed;
};

extern const uint64_t figure_bounds_usec[FIGURE_BUCKETS];
struct metrics *service_metrics(struct service *s);
void figure_add(struct service *s, enum figure f, uint64_t usec);

#endif /* SERVICE_CORE_SERVICE_H */
