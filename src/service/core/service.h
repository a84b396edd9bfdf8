/* SPDX-License-Identifier: Apache-2.0 */
/*
 * service.h - the state and operations of the api process: sandboxes, images, events,
 * access
 *
 * Theory of operation
 *
 * One thread runs one loop. The database (db/db.h) is authoritative: it records what
 * exists and was acknowledged. The memory holds a copy of it, and the connections:
 *
 *	warden_conn.c		to the warden, which creates and destroys sandboxes
 *	init_conn.c		to the init of each sandbox
 *	init_conn_out.c		requests that wait for space in a connection
 *	reconnect.c		opens a connection again after it ended
 *	sandbox.c		sandboxes: states, creation, destruction, lifetime
 *	sandbox_create.c	creation, with a pull of a missing image
 *	image.c			images: each pulled once for all requests
 *	image_job.c		reports of warren-image(1)
 *	image_stream.c		archives of images
 *	event.c			events, for listeners
 *	restore.c		finds the sandboxes of an earlier process again
 *	disk.c			whether the disk has free space
 *	gc.c			destroys later what could not be destroyed in time
 *	orphans.c		destroys sandboxes that the database does not contain
 *	prune.c			deletes rows that are not needed any more
 *	sandbox_job.c		the jobs of a sandbox, of which one is in progress
 *	sandbox_ops.c		jobs of the warden: create, limit, destroy
 *	sandbox_pause.c		pause and resume
 *	sandbox_use.c		uses, which resume and wake a sandbox
 *	sandbox_group.c		sandboxes that are created together, all or none
 *	sandbox_spec.c		the text of a sandbox's spec
 *	sandbox_ports.c		connections to ports of a sandbox
 *	hibernate.c		saves the files of a sandbox to disk, and wakes it
 *	hibernate_memory.c	the same, together with its processes
 *	diff.c			lists the changed files of a sandbox
 *	undo.c			keeps files before a command, and restores them
 *	file_worker.c		file requests of a sandbox
 *	secret.c		secrets of tenants
 *	fair_quota.c, lease.c	what tenants share
 *	permit.c		a request that waited starts only while its token is valid
 *	pool_ids.c		ids of sandboxes that are prepared in advance
 *	hooks.c			calls the modules
 *
 * The service records an operation before it begins and answers the client after it is
 * done. So the next process can finish the work of a killed process. It destroys
 * sandboxes in state `creating` that were not acknowledged and sandboxes in state
 * `deleting`, and finds the results of execs in their journals.
 *
 * The service trusts no message from an init: an init can harm only its own sandbox.
 *
 * The modules handle what happens in a sandbox; each has a header: exec/exec.h,
 * session/session.h, files/files.h. They use the core, and the core calls them through
 * hooks.h.
 *
 * Functions with `done` answer later, from the loop, exactly once, even if the sandbox
 * ends in the meantime; the others answer immediately.
 */
#ifndef SERVICE_CORE_SERVICE_H
#define SERVICE_CORE_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/denial.h"
#include "base/error.h"
#include "base/id.h"
#include "base/secret_name.h"
#include "base/waiter.h"
#include "db/db.h"

struct net_loop;
struct service;
struct service_module;
struct sandbox;

struct service_options {
	struct net_loop *loop;
	struct db *db;
	int warden;   /* connection to the warden; the service takes it */
	int journals; /* directory of journals; the service takes it */
	/* Path of the key file of secrets (core/secret.h), which need not exist. */
	const char *secret_key;
	/*
	 * Journals may be reused for other sandboxes, because no init runs as the user
	 * that owns them.
	 */
	bool reuse;
	uint64_t journal_default, journal_max; /* bytes of output kept per exec */
	unsigned execs_max; /* execs kept in the database per sandbox */
	/* Names of the backends, NULL-terminated; borrowed. */
	const char *const *backends;
	/*
	 * Directories that errors which clients read must not name, NULL-terminated;
	 * borrowed.
	 */
	const char *const *private_dirs;
	/* The modules: service/modules.h; borrowed. */
	const struct service_module *const *modules;
	/* Limits of inotify(7) for all tenants: instances and watches; 0: the default. */
	uint64_t watches_max, watched_max;
	uint64_t journal_total; /* bytes of all journals of a sandbox; 0: the default */
	uint64_t output_max;    /* bytes of all journals; 0: half of the disk */
	/* Interpreters that wait for a program, per tenant and language: code/warm.c. */
	unsigned code_warm;
	uint64_t
		descriptors_max; /* maximum for sandboxes, execs and files; 0: no limit */
	/* When the run directory was created, which ends with the machine; system time in
	 * ms, 0: unknown. */
	int64_t run_since;
	/* Differs from that of every other run directory; "": unknown. */
	char run_id[128];
};

typedef void (*service_done_fn)(void *ctx, int r, const struct warren_error *err);

int service_new(const struct service_options *options, struct service **ret,
		struct warren_error *err) MUST_CHECK;
struct service *service_free(struct service *s);
/* Remove the service's directories (.private_dirs) from a text for clients. */
void service_hide_dirs(const struct service *s, char *text);
/* Restore the sandboxes of an earlier process. Calls @done when all are restored. */
int service_restore(struct service *s, service_done_fn done, void *ctx,
		    struct warren_error *err) MUST_CHECK;
/* Delete all sandboxes. Calls @done when they are gone. */
void service_delete_all(struct service *s, service_done_fn done, void *ctx);
/*
 * clock.c: milliseconds since 1970, by a separate clock of the service. The database and
 * all expiry use this clock. It runs steadily, even across restarts and when the system
 * time is changed.
 */
int64_t service_time(void);
/* Convert a time of this clock to the system time, for users. */
int64_t service_wall(int64_t time);
/*
 * Open the clock. Call this before the first use. The clock continues from the time of
 * the earlier process with this database. @boot is the boot's id, or "".
 */
int service_clock_open(struct db *db, const char *boot,
		       struct warren_error *err) MUST_CHECK;
/* Store the time for the next boot. Call this from time to time and at the end. */
int service_clock_save(struct db *db, struct warren_error *err) MUST_CHECK;
struct db *service_db(struct service *s);
struct net_loop *service_loop(struct service *s);
/*
 * Check whether the warden works: send it a request, which it must answer within two
 * seconds.
 */
void service_check_warden(struct service *s, service_done_fn done, void *ctx);
/* Return whether the disk has free space and all results are recorded. */
bool service_disk_ok(const struct service *s);
/* Get the number of sandboxes on @backend. */
size_t service_count_at(const struct service *s, const char *backend);
/* Get the features of @backend on this machine, as a JSON array. */
void service_probe(struct service *s, const char *backend,
		   void (*done)(void *ctx, int r, const char *json,
				const struct warren_error *err),
		   void *ctx);
/* Set a function for the administrator's log. Clients do not see these texts. */
void service_on_note(struct service *s, void (*fn)(void *ctx, const char *text),
		     void *ctx);
/* Resources that the service holds for a sandbox, in addition to the sandbox's own. */
struct sandbox_held {
	/* Bytes of journals, including the space reserved for running execs. */
	uint64_t output;
	uint64_t descriptors; /* descriptors for the connection, execs and open files */
};

void sandbox_held(const struct sandbox *sandbox, struct sandbox_held *ret);
/* The quota that an error -EDQUOT or -EUSERS is about; NULL: none is known. */
const struct denial *service_denied(const struct service *s,
				    const struct warren_error *err);
/* Set a function that is called when the warden is gone. The process must then end. */
void service_on_warden_end(struct service *s, void (*fn)(void *ctx), void *ctx);

/* ---------------------------------------------------------------- sandboxes */

/* The sandbox @id if it belongs to @owner (NULL: any owner); otherwise NULL. */
struct sandbox *sandbox_find(struct service *s, const char *owner, const char *id);
/* Call @fn for each sandbox; it must not create or delete any. */
void service_each(struct service *s, void (*fn)(void *ctx, struct sandbox *sandbox),
		  void *ctx);
/*
 * The id of the sandbox that @word refers to. @word may be an id, a name, or the
 * beginning of an id; they are tried in this order. Only sandboxes of @owner are found;
 * @any: with their whole id also those of others (db_find_sandbox()). -ENOENT; -ENOTUNIQ:
 * several match.
 */
int sandbox_resolve(struct service *s, const char *owner, bool any, const char *word,
		    char ret_id[ID_LEN + 1], struct warren_error *err) MUST_CHECK;
/* Get the copy of the sandbox's row; borrowed until the next call that changes it. */
const struct sandbox_row *sandbox_row(const struct sandbox *sandbox);
/* Are its files on disk from the start? */
bool sandbox_persists(const struct sandbox *sandbox);
/* How long it runs each time, in ms; 0: it is deleted when its time has passed. */
uint64_t sandbox_lifetime(const struct sandbox *sandbox);
struct service *sandbox_service(const struct sandbox *sandbox);
/* Are its execs known? After a restart of the service, not until it is connected. */
bool sandbox_is_loaded(const struct sandbox *sandbox);
/* Does it run, and is not being stopped in order to hibernate or to be reset? */
bool sandbox_stays(const struct sandbox *sandbox);

/* When to pull the image. */
enum sandbox_pull {
	BOX_PULL_MISSING,
	BOX_PULL_ALWAYS,
	BOX_PULL_NEVER,
};

struct sandbox_source {
	enum sandbox_pull pull;
	const char *platform; /* NULL: the platform of this machine */
	bool theirs;          /* the backend has its own images; nothing is pulled */
	bool may_not_pull;    /* the client may not pull; a missing image is an error */
};

/*
 * Create a sandbox from @spec; @row describes the same sandbox for the database, which
 * records it before this function returns. Returns 0; 1 if the same request was made
 * before (*@ret is its sandbox, or NULL if it no longer exists); or -errno as for
 * db_insert_sandboxes(). Use sandbox_wait() for the outcome.
 */
int sandbox_create(struct service *s, struct sandbox_row *row,
		   const struct warren_spec *spec, const struct sandbox_source *source,
		   const struct db_request *request, struct sandbox **ret,
		   struct warren_error *err) MUST_CHECK;
/*
 * Like sandbox_create(), for several sandboxes; either all are recorded or none. @ret has
 * space for @n.
 */
int sandbox_create_many(struct service *s, struct sandbox_row *rows,
			const struct warren_spec *specs,
			const struct sandbox_source *sources, size_t n,
			const struct db_request *request, struct sandbox **ret,
			struct warren_error *err) MUST_CHECK;
/*
 * Create all sandboxes or none, even if the service is killed: sandbox_group.c. Calls
 * @done when all are running (@all NULL: none is, and *@err says why; those that a client
 * has deleted are NULL), but their main commands may not be. If this function fails,
 * @done is not called.
 */
typedef void (*sandbox_all_fn)(void *ctx, struct sandbox **all,
			       const struct warren_error *err);
int sandbox_create_all(struct service *s, struct sandbox_row *rows,
		       const struct warren_spec *specs,
		       const struct sandbox_source *sources, size_t n,
		       sandbox_all_fn done, void *ctx,
		       struct warren_error *err) MUST_CHECK;
/*
 * Delete sandboxes that no client knows; all or none, even if the service is killed. @all
 * may contain NULL, and is changed.
 */
void sandbox_discard(struct service *s, struct sandbox **all, size_t n);

/*
 * Wait until the sandbox is in one of @states (bits, 1U << SANDBOX_RUNNING; SANDBOX_GONE:
 * deleted), or for @ms. The loop calls fn() with the state or -ETIMEDOUT. The caller
 * provides the memory of the waiter until fn() or sandbox_wait_cancel() is called.
 */
#define SANDBOX_GONE SANDBOX_STATE_MAX

struct sandbox_waiter {
	uint32_t states;
	void (*fn)(struct sandbox_waiter *w, struct sandbox *sandbox, int state);
	void *ctx;
	struct sandbox *sandbox; /* private from here; NULL: not waiting */
	struct sandbox_waiter *next;
	struct loop_timer *timer;
	int reached;
};

void sandbox_wait(struct sandbox *sandbox, struct sandbox_waiter *w, uint64_t ms);
void sandbox_wait_cancel(struct sandbox_waiter *w);
/*
 * Like sandbox_wait_cancel(), for a client that never learned the sandbox's id: if the
 * creation fails, the sandbox is removed at once.
 */
void sandbox_wait_abandon(struct sandbox_waiter *w);

/* @done gets -ESTALE if the sandbox's state does not allow the operation. */
void sandbox_delete(struct sandbox *sandbox, service_done_fn done, void *ctx);
void sandbox_pause(struct sandbox *sandbox, bool pause, service_done_fn done, void *ctx);
/*
 * Pause the sandbox and free the memory of all its processes; -EBUSY: a process cannot be
 * saved.
 */
void sandbox_checkpoint(struct sandbox *sandbox, service_done_fn done, void *ctx);
/*
 * End all processes of the sandbox, as sandbox_stop() does, and keep only its files, on
 * disk (service/exec/sandbox_hibernate.c).
 */
void sandbox_hibernate(struct sandbox *sandbox, uint64_t grace_ms, service_done_fn done,
		       void *ctx);
/*
 * Save the processes and the files of the sandbox to disk, and end it: its next use
 * continues the processes (hibernate_memory.c). -EBUSY: a process cannot be saved.
 */
void sandbox_hibernate_memory(struct sandbox *sandbox, service_done_fn done, void *ctx);
/*
 * Set a function that converts the row of a sandbox to a spec for the engine. It calls
 * @use once, before it returns, with the spec or with an error.
 */
typedef void sandbox_spec_fn(void *ctx, const struct warren_spec *spec,
			     const struct warren_error *err);
typedef void sandbox_respec_fn(void *ctx, const struct sandbox *sandbox,
			       sandbox_spec_fn *use, void *use_ctx);
void service_on_respec(struct service *s, sandbox_respec_fn *fn, void *ctx);
/* Return whether the sandbox is paused with a checkpoint. */
bool sandbox_is_saved(const struct sandbox *sandbox);
/*
 * Return -EBUSY if the sandbox belongs to a code run (code/code.h) and can only be
 * deleted.
 */
int sandbox_check_run(const struct sandbox *sandbox, struct warren_error *err);
void sandbox_update(struct sandbox *sandbox, const struct warren_limits *limits,
		    service_done_fn done, void *ctx);
void sandbox_stats(struct sandbox *sandbox,
		   void (*done)(void *ctx, int r, const struct warren_stats *stats,
				const struct warren_error *err),
		   void *ctx);
/* The current values of the limits that sandbox_update() can change. */
void sandbox_limits(const struct sandbox *sandbox, struct warren_limits *ret);

/* Changes that affect only the database. */
struct sandbox_change {
	const char *name;              /* NULL: unchanged */
	const struct db_label *labels; /* the complete new list */
	size_t n_labels;
	bool sets_labels;
	bool sets_times;
	int64_t expires_at;
	uint64_t idle_timeout_ms;
	const char *on_idle, *on_ttl; /* the name of the action; NULL: unchanged */
	int wake_on_use;              /* 0 or 1; -1: unchanged */
};
/*
 * The field of a spec with the time that a sandbox runs each time it is woken, in ms, if
 * its on_ttl does not delete it.
 */
#define SANDBOX_LIFETIME "lifetime_ms"

/* Make all changes or none. -ENOTUNIQ: its owner has another sandbox with that name. */
int sandbox_change(struct sandbox *sandbox, const struct sandbox_change *change,
		   struct warren_error *err);
/* Check whether sandbox_change() would succeed now. Changes nothing. */
int sandbox_change_check(const struct sandbox *sandbox,
			 const struct sandbox_change *change, struct warren_error *err);
/* Get the errno of a failed creation; 0: none. */
int sandbox_failure(const struct sandbox *sandbox);
/* Return whether the main command failed, and not the sandbox. */
bool sandbox_command_failed(const struct sandbox *sandbox);

/*
 * Record a use of the sandbox, so that it is not idle. If it was paused because it was
 * idle, it is resumed. Calls @done when the sandbox runs, or with -ESTALE if its state
 * does not allow use.
 */
void sandbox_use(struct sandbox *sandbox, service_done_fn done, void *ctx);

/*
 * The following requests are on behalf of @token, which expires at @expires_at (0:
 * never). A request that has to wait begins only if the token is still valid then. NULL
 * or "": no token is needed. Set it before handling a request, and clear it afterwards.
 */
void service_permit(struct service *s, const char *token, int64_t expires_at);

/*
 * A client uses the sandbox through a separate connection. The sandbox is not idle until
 * sandbox_disengage() is called, which gets an id because the sandbox may be gone by
 * then.
 */
void sandbox_engage(struct sandbox *sandbox);
void sandbox_disengage(struct service *s, const char *id);

/* The default working directory of commands, and the directory for relative paths. */
const char *sandbox_workdir(const struct sandbox *sandbox);
/*
 * A file without a name, for data whose destination is not known yet. Returns a
 * descriptor or -errno.
 */
int service_spool(struct service *s);

/* Connect to a port of the sandbox, through its init. */
typedef void (*sandbox_fd_fn)(void *ctx, int fd, const struct warren_error *err);
void sandbox_connect_port(struct sandbox *sandbox, uint16_t port, sandbox_fd_fn done,
			  void *ctx);

/* ------------------------------------------------------------------- images */

enum image_verb {
	IMAGE_LIST,
	IMAGE_INSPECT,
	IMAGE_REMOVE,
	IMAGE_REMOVE_FORCED,
	IMAGE_REMOVE_SNAPSHOT, /* the same, without an event */
	IMAGE_TRIM, /* remove cached steps of builds, if the disk is nearly full */
};

/*
 * Run warren-image(1). Calls @done with its output, a JSON array ("" for a removal).
 * -ENOMEDIUM: there is no such image; -EEXIST: the image has further names.
 */
typedef void (*image_ask_fn)(void *ctx, int r, const char *json, size_t size,
			     const struct warren_error *err);
void image_ask(struct service *s, enum image_verb verb, const char *ref,
	       image_ask_fn done, void *ctx);
/* Read the report of warren-image from the pipe @fd, which it takes; as image_ask(). */
int image_follow(struct service *s, int fd, image_ask_fn done, void *ctx,
		 struct warren_error *err);
/* Give the image @ref the name @name. */
void image_tag(struct service *s, const char *ref, const char *name, image_ask_fn done,
	       void *ctx);

/*
 * An archive that warren-image(1) writes or reads. Until done(), the stream exists;
 * opened() is called at most once.
 */
enum image_stream_kind {
	IMAGE_STREAM_SAVE,  /* writes the archive of an image */
	IMAGE_STREAM_LOAD,  /* reads an archive of images */
	IMAGE_STREAM_BUILD, /* reads a request and a context: cli/image/build_request.h */
};
struct image_stream_ops {
	/* Takes @fd: a pipe to read the archive from, or to write it to. */
	void (*opened)(void *ctx, int fd);
	/* @json: the loaded images, a JSON object on each line. Errors: see image_ask().
	 */
	void (*done)(void *ctx, int r, const char *json, size_t size,
		     const struct warren_error *err);
	/* Output of a build; returns false to wait for image_stream_resume(). */
	bool (*output)(void *ctx, const char *text, size_t n);
};
struct image_stream;
struct image_stream_request {
	enum image_stream_kind kind;
	const char *tenant;
	const char *ref; /* the image to save */
	/* What a command of a build may use; it counts with the tenant's sandboxes. */
	uint64_t memory, cpu_millis, disk;
};
/*
 * -EAGAIN: the tenant, or all tenants together, have reached their maximum. -EDQUOT: the
 * tenant has reached a quota.
 */
int image_stream_start(struct service *s, const struct image_stream_request *request,
		       const struct image_stream_ops *ops, void *ctx,
		       struct image_stream **ret, struct warren_error *err) MUST_CHECK;
void image_stream_resume(struct image_stream *stream);
/* End the stream without calling done(); accepts NULL, returns NULL. */
struct image_stream *image_stream_cancel(struct image_stream *stream);

struct image_layer {
	char digest[80];
	char phase[16]; /* as in openapi.yaml */
	uint64_t done, total;
	uint64_t change; /* increases with each change of any layer of the pull */
};

/*
 * A client that waits for a pull, or watches it. If several clients request the same
 * image, it is pulled once. The loop calls fn() with 1 for progress, and at the end with
 * 0 or -errno. -ENOMEDIUM: the registry has no such image; -ECOMM: any other error of the
 * registry. The caller provides the memory of the waiter until the end or image_leave().
 */
struct image_waiter {
	void (*fn)(struct image_waiter *w, int r, const struct warren_error *err);
	void *ctx;
	/*
	 * After a pull into a backend with its own images, or a push: JSON; borrowed.
	 */
	const char *found;
	size_t found_size;
	struct pull *pull; /* private from here; NULL: not waiting */
	struct image_waiter *next;
};

#define IMAGE_IF_MISSING (1U << 0)
#define IMAGE_PERSISTENT (1U << 1) /* continues even if no client waits for it */
#define IMAGE_PUSH       (1U << 2) /* set by image_push() */

/*
 * @backend: a backend with its own images; NULL: Warren's store. Tenants share the
 * maximum number of concurrent pulls.
 */
int image_pull(struct service *s, const char *tenant, const char *backend,
	       const char *ref, const char *platform, unsigned flags,
	       struct image_waiter *w, struct warren_error *err) MUST_CHECK;
/*
 * Push the image @ref to its registry, as @to ("": under its own name). At the end,
 * w->found is a JSON object with its id, digest and reference. It ends when no client
 * waits for it.
 */
int image_push(struct service *s, const char *tenant, const char *ref, const char *to,
	       struct image_waiter *w, struct warren_error *err) MUST_CHECK;
void image_leave(struct image_waiter *w);
/* Get the progress of the pull; borrowed until the callback returns to the loop. */
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
	EVENT_SECRET_SET,
	EVENT_SECRET_DELETED,
	EVENT_NETWORK_DENIED,
	EVENT_VOLUME_CREATED,
	EVENT_VOLUME_DELETED,
	EVENT_SANDBOX_HIBERNATED,
	EVENT_SNAPSHOT_CREATED,
	EVENT_SNAPSHOT_DELETED,
	EVENT_SANDBOX_LOST,
	EVENT_TYPE_MAX,
};

struct event {
	uint64_t id;
	int64_t at;
	enum event_type type;
	char owner[DB_NAME_MAX + 1]; /* "": visible to all tenants */
	char sandbox[ID_LEN + 1];    /* "": no sandbox */
	/* The id of an exec or session, or the name of a secret or volume; "": none. */
	char object[SECRET_NAME_MAX + 1];
	char *image; /* for IMAGE_*: the requested reference; otherwise NULL */
	/* For NETWORK_DENIED: what was denied, as a JSON object; NULL: unknown. */
	char *denial;
	int state; /* state of the sandbox after the event; -1: deleted, or no sandbox */
	char reason[32]; /* one word; "": none */
	bool has_result;
	struct warren_result result; /* for EXEC_FINISHED, if known */
};

const char *event_type_name(enum event_type type);
void event_emit(struct service *s, enum event_type type, const struct sandbox *sandbox,
		const char *object, const struct warren_result *result);
/* Emit an event for something that a network policy denied. */
void event_emit_denied(struct service *s, const struct sandbox *sandbox,
		       const char *denial);
/* Emit an event for an image, which belongs to no tenant. */
void event_emit_image(struct service *s, enum event_type type, const char *ref);
/* Emit an event for a volume, by its name. */
void event_emit_volume(struct service *s, enum event_type type, const char *tenant,
		       const char *name);
/* Emit an event for a snapshot, by its name or id. */
void event_emit_snapshot(struct service *s, enum event_type type, const char *tenant,
			 const char *name);
/* Emit an event for a secret, by its name. */
void event_emit_secret(struct service *s, enum event_type type, const char *tenant,
		       const char *name);
/*
 * Events are numbered consecutively, across restarts of the service. Those after
 * event_first() are kept: the events of the last hour, but at most a hundred thousand.
 */
uint64_t event_first(const struct service *s);
/* The next kept event after @id, valid until the next call; NULL: none. */
const struct event *event_after(struct service *s, uint64_t id);
uint64_t event_last(const struct service *s);

/* Calls @w with the service whenever there are new events. */
void event_listen(struct service *s, struct waiter *w);
void event_unlisten(struct waiter *w);

/* ------------------------------------------------------------------ metrics */

enum figure {
	FIGURE_CREATE, /* seconds from the request until the sandbox runs */
	FIGURE_EXEC,   /* seconds from the request until the program starts */
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
	uint64_t store_errors; /* failed writes that the service survived */
	/*
	 * Sandboxes that the warden prepares in advance: how many are ready and wanted
	 * now, and how often the creation of a sandbox has used one or found none so far.
	 */
	uint64_t parts_ready, parts_wanted, parts_taken, parts_missed;
};

extern const uint64_t figure_bounds_usec[FIGURE_BUCKETS];
struct metrics *service_metrics(struct service *s);
void figure_add(struct service *s, enum figure f, uint64_t usec);

#endif /* SERVICE_CORE_SERVICE_H */
