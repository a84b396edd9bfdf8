/* SPDX-License-Identifier: Apache-2.0 */
/*
 * warren.h - the public interface of libwarren, a library to create and use sandboxes
 *
 * Typical use:
 *
 *	struct warren *w = NULL;
 *	struct warren_sandbox *sb = NULL;
 *	struct warren_exec *ex = NULL;
 *	struct warren_result res;
 *	struct warren_error err = WARREN_ERROR_INIT;
 *	const char *argv[] = { "uname", "-n", NULL };
 *
 *	if (warren_open(NULL, &w, &err) < 0 ||
 *	    warren_create(w, &(struct warren_spec){ .hostname = "burrow" }, &sb,
 *			  &err) < 0 ||
 *	    warren_exec(sb, &(struct warren_exec_spec){ .argv = argv }, &ex, &err) < 0 ||
 *	    warren_exec_wait(ex, -1, &res, &err) < 0)
 *		errx(1, "%s", err.msg);
 *	...
 *	ex = warren_exec_free(ex);
 *	warren_destroy(sb, &err);
 *	w = warren_close(w);
 *
 * Every function that can fail returns 0 or a positive value on success and a negative
 * errno on failure, and has the error as its last parameter. It writes the error only on
 * failure and `ret_` parameters only on success. No function of this library logs, prints
 * or exits. There are no globals: two engines in one process are independent. Only one
 * thread may use a handle at a time; different threads may use different sandboxes.
 *
 * In a spec, zero or NULL means "the default". If this machine cannot enforce a limit,
 * the call fails if the spec sets the limit; a default limit is left out, and
 * warren_enforced() says so.
 */
#ifndef WARREN_H
#define WARREN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WARREN_PUBLIC __attribute__((visibility("default")))

/*
 * An error is a plain value: no allocation, no release, and small enough to
 * cross a pipe in one write(2) from a child that has not exec()ed yet.
 */
struct warren_error {
	int code;      /* positive errno, 0 while there is no error */
	char msg[508]; /* "<what was being done>: <why it failed>" */
};

#define WARREN_ERROR_INIT            \
	{                            \
		.code = 0, .msg = "" \
	}

struct warren;         /* an engine: an open backend */
struct warren_sandbox; /* an isolated computer */
struct warren_exec;    /* a process tree in a sandbox */

/* ------------------------------------------------------------------ engine */

struct warren_options {
	/* "native" (the default), "null", "docker", "gvisor" or "command" */
	const char *backend;
	/*
	 * Settings of "docker", "gvisor" and "command" as a JSON object; NULL: none. Its
	 * member "name" is the backend's name in errors.
	 */
	const char *backend_config;
	const char *state_dir; /* directory of layers; default /var/lib/warren */
	const char *run_dir;   /* directory of live sandboxes; default /run/warren */
	/*
	 * Name of an engine with durable sandboxes: 1 to 32 letters, digits, '-' and '_'.
	 * Its durable sandboxes continue when it is closed or killed, and belong to the
	 * next engine with that name. Only one engine can have a name at a time: -EBUSY
	 * while another has it. NULL: an engine without a name.
	 */
	const char *engine_name;
	bool trace; /* measure the times for warren_trace() */
};

/* A feature that a machine has or lacks, as `warren doctor` prints it. */
struct warren_feature {
	const char *name;
	bool ok;
	bool required;      /* no sandbox can run without the feature */
	char detail[160];   /* what was found */
	const char *effect; /* what does not work without the feature; NULL if it is
			       available */
	const char *fix;    /* how to get the feature; NULL if that is not possible */
};

/*
 * A sandbox that can no longer be reached, because its run directory is gone (for example
 * after /run was wiped). A sandbox whose run directory exists is never an orphan,
 * whichever engine it belongs to.
 */
struct warren_orphan {
	char id[16];
	int pid;          /* process id of its init or shim; 0: only a cgroup is left */
	uint32_t uid;     /* owner of that process, or of the cgroup */
	char detail[160]; /* what was found */
};

/* @options may be NULL. Removes what crashed processes of Warren left behind. */
WARREN_PUBLIC int warren_open(const struct warren_options *options,
			      struct warren **ret_warren, struct warren_error *err);
/* Destroys the engine's sandboxes, except durable ones. Accepts NULL; returns NULL. */
WARREN_PUBLIC struct warren *warren_close(struct warren *w);
/* The features are borrowed from @w. */
WARREN_PUBLIC int warren_probe(struct warren *w,
			       const struct warren_feature **ret_features, size_t *ret_n,
			       struct warren_error *err);
/*
 * List the orphans of the whole machine. -EPERM: the caller is not root. The caller
 * releases the list with free(3).
 */
WARREN_PUBLIC int warren_orphans(struct warren *w, struct warren_orphan **ret,
				 size_t *ret_n, struct warren_error *err);
/* Kill the processes of an orphan and remove its cgroup. -ENOENT: @id is no orphan. */
WARREN_PUBLIC int warren_remove_orphan(struct warren *w, const char *id,
				       struct warren_error *err);
WARREN_PUBLIC const char *warren_version(void);

/* --------------------------------------------------------------- sandboxes */

enum warren_network {
	WARREN_NETWORK_LOOPBACK, /* a separate network namespace with only lo, up */
	WARREN_NETWORK_NONE,     /* a separate network namespace in which lo is down */
	/*
	 * Like LOOPBACK; warren_capture_network() will be called. Some backends can do
	 * that only for such a sandbox.
	 */
	WARREN_NETWORK_CAPTURED,
};

/* A mount over the image: a directory or file of the host, or a tmpfs. */
struct warren_mount {
	const char *source; /* NULL: a tmpfs */
	const char *target; /* absolute, inside */
	bool read_only;
	uint64_t size; /* bytes, for a tmpfs; 0: 64 MiB */
	/*
	 * A descriptor of the source (O_PATH is enough), which the caller keeps: exactly
	 * this file is mounted. -ESTALE: .source no longer refers to it. 0: none.
	 */
	int source_fd;
	/*
	 * .source_fd is a detached mount (fsmount(2)) of a whole filesystem, which the
	 * call takes over and attaches; .source is only its name in errors. Ids inside
	 * are those of the filesystem. Only with root; not for backends of the kind
	 * `command`.
	 */
	bool volume;
	/*
	 * Copy on write: the sandbox sees the directory .source, with .layers over it and
	 * .below under it (directories, the topmost first, NULL-terminated), and changes
	 * none of them. Its changes go to .writes (libwarren(3)). -EBUSY: another sandbox
	 * has it. -EOPNOTSUPP: the backend or a filesystem cannot be used for this.
	 */
	const char *writes;
	const char *const *layers, *const *below;
	/* libwarren(3), "Directories of the host"; false: no file gets set-id bits. */
	bool allow_set_id;
};

#define WARREN_LIMIT_MEMORY (1U << 0)
#define WARREN_LIMIT_CPU    (1U << 1)
#define WARREN_LIMIT_PIDS   (1U << 2)
#define WARREN_LIMIT_DISK   (1U << 3)
#define WARREN_LIMIT_NOFILE (1U << 4)

struct warren_spec {
	/* In the format of warren_id(), and not in use; default: a new id. */
	const char *id;
	/*
	 * "host" (the default), "dir:PATH", or an image of this machine's store by
	 * reference or id. The user, working directory and environment of an image from
	 * the store are the defaults for this spec.
	 */
	const char *image;
	const char *hostname; /* default: the sandbox's id */
	/* For execs without .user: a name, uid or uid:gid; default: root. */
	const char *user;
	const char *workdir;    /* directory of execs without .cwd; created if missing;
				   default: / */
	const char *const *env; /* "NAME=value", NULL-terminated, for every exec */

	uint64_t memory; /* bytes, no swap; default: half of the machine's memory */
	/* 1500: one and a half processors; default: all processors. */
	uint64_t cpu_millis;
	uint64_t pids; /* default: 1,024 */
	uint64_t disk; /* bytes for writes to the root; default: memory / 2 */
	/* Open files per process; default: the caller's limit, at most 65,536. */
	uint64_t nofile;

	/*
	 * The limits (WARREN_LIMIT_*) that are soft: if one cannot be enforced, the
	 * sandbox is created without it, and warren_enforced() says so. (The native
	 * backend does this only for ordinary users; for root, a soft limit that cannot
	 * be enforced is an error.)
	 */
	uint64_t soft_limits;

	const struct warren_mount *mounts;
	size_t n_mounts;
	enum warren_network network;
	bool read_only; /* makes the root read-only; mounts have their own flag */
	/*
	 * The sandbox runs a single exec, which has .accounts_sandbox set. Such a sandbox
	 * cannot be paused. The processor times of the exec come from the kernel's
	 * accounting of processes, not from a cgroup. If one of the last steps of the
	 * creation fails, warren_exec() reports it (-EREMOTEIO). This saves a fifth of
	 * the time.
	 */
	bool one_shot;
	/*
	 * The sandbox ends only when it is destroyed. It outlives this process and its
	 * engine, which must have a name. Its processes continue, and the journals of its
	 * execs keep their output, even if no process is connected. (Not together with
	 * .one_shot.)
	 */
	bool durable;
	/*
	 * The image must be on this machine: a backend that would pull a missing image
	 * fails instead. (The native backend never pulls.)
	 */
	bool no_pull;
	/*
	 * The sandbox starts with the files that warren_hibernate() saved for .id.
	 * -ENOENT: there are none.
	 */
	bool restore;
	/*
	 * Its files are on disk from the start, in the state directory, and outlive its
	 * processes: .restore brings it back. Only for root, and with .durable.
	 */
	bool persist;
	/*
	 * The same for the root: the layers are over those of the image. Each may be
	 * given alone. Not for durable sandboxes.
	 */
	const char *writes;
	const char *const *layers;
};

/* Limits that can change while a sandbox lives. 0: unchanged. */
struct warren_limits {
	uint64_t memory;
	uint64_t cpu_millis; /* WARREN_UNLIMITED: all processors */
	uint64_t pids;
};

#define WARREN_UNLIMITED UINT64_MAX

/*
 * Whether one limit or isolation is enforced: "memory", true, "536870912 bytes by cgroup
 * v1".
 */
struct warren_enforcement {
	const char *name;
	bool enforced;
	char detail[96];
};

/*
 * For profiling: a step of the creation of a sandbox, and when it ended. Steps run in up
 * to WARREN_LANES lanes at the same time.
 */
#define WARREN_LANES 3

struct warren_step {
	const char *name;
	uint64_t ns; /* since the start of warren_create() */
	int lane;    /* 0: the caller's process; 1, 2: the child and its thread */
};

struct warren_stats {
	uint64_t memory;      /* bytes now */
	uint64_t memory_peak; /* bytes */
	uint64_t cpu_usec;    /* processor time of all processes, including ended ones */
	uint64_t pids;        /* processes and threads now */
	uint64_t oom_kills;
	/* Bytes in TCP and UDP buffers; cgroup v1 does not count them in .memory. */
	uint64_t sockets;
	uint64_t disk;   /* bytes written to the root; 0: not known */
	uint64_t inodes; /* files and directories created there; 0: not known */
};

WARREN_PUBLIC int warren_create(struct warren *w, const struct warren_spec *spec,
				struct warren_sandbox **ret_sandbox,
				struct warren_error *err);
/*
 * Prepare the parts of a durable sandbox that do not depend on its spec. The engine must
 * have a name. warren_create() with this id uses the prepared sandbox; without an id, it
 * uses any prepared one. Prepared sandboxes that are not used end with the engine.
 */
#define WARREN_ID_SIZE 13
WARREN_PUBLIC int warren_prepare(struct warren *w, char ret_id[WARREN_ID_SIZE],
				 struct warren_error *err);
/*
 * Destroy at most @n prepared sandboxes that were not used, the oldest first; return how
 * many.
 */
WARREN_PUBLIC size_t warren_unprepare(struct warren *w, size_t n);
/*
 * Kills all processes of the sandbox, verifies that none is left and removes everything
 * that was created for it. The handle is released even if the call fails; the error says
 * what could not be removed, and the next warren_open() tries again. Free the sandbox's
 * execs first.
 */
WARREN_PUBLIC int warren_destroy(struct warren_sandbox *sb, struct warren_error *err);
/*
 * List the ids of all live durable sandboxes that belong to this engine's name, including
 * those that earlier engines created. The list is NULL-terminated, and one allocation
 * that the caller frees.
 */
WARREN_PUBLIC int warren_list(struct warren *w, char ***ret_ids,
			      struct warren_error *err);
/*
 * Get a handle for the durable sandbox with this id, which belongs to this engine's name.
 * -ENOENT: the sandbox does not exist; -ESRCH: it has ended, and its remains were
 * removed.
 */
WARREN_PUBLIC int warren_adopt(struct warren *w, const char *id,
			       struct warren_sandbox **ret_sandbox,
			       struct warren_error *err);
/* Release the handle of a durable sandbox, which continues. NULL is accepted, returned.
 */
WARREN_PUBLIC struct warren_sandbox *warren_release(struct warren_sandbox *sb);
/*
 * Change limits of a durable sandbox: either all that are given or none. -EBUSY: the
 * sandbox uses more memory than the new limit, and the kernel could not reclaim enough.
 */
WARREN_PUBLIC int warren_update(struct warren_sandbox *sb,
				const struct warren_limits *limits,
				struct warren_error *err);
/*
 * Open a separate connection to the init of a durable sandbox, over which another process
 * can speak the init protocol. -EBUSY: init already has its maximum number of
 * connections.
 */
WARREN_PUBLIC int warren_connection(struct warren_sandbox *sb, int *ret_fd,
				    struct warren_error *err);
/*
 * Deliver the network traffic of the sandbox to two sockets that the caller owns. The
 * first one accepts all TCP connections of the sandbox except those to itself
 * (127.0.0.0/8 and ::1): getsockname(2) on an accepted connection returns the address
 * that the sandbox connected to. The second one receives UDP packets to port 53 of any
 * address. Everything else is refused. When the sockets are closed, the sandbox has no
 * network again; the next call makes new ones. -EADDRINUSE: the sockets of an earlier
 * call are still open.
 */
#define WARREN_CAPTURE_FDS 2
WARREN_PUBLIC int warren_capture_network(struct warren_sandbox *sb,
					 int ret_fds[WARREN_CAPTURE_FDS],
					 struct warren_error *err);
/*
 * Let programs in the sandbox trust a certificate. @bundle is a file with certificates
 * (PEM), which the sandbox gets as WARREN_TRUST_FILE. Its last one is added
 * to the files in which the image keeps the certificates that its programs trust: the
 * copies are mounted over these files, so the files themselves do not change. A second
 * call changes nothing. -EOPNOTSUPP: the backend cannot do this. -EILSEQ: files or
 * processes in the sandbox prevent it.
 */
#define WARREN_TRUST_FILE "/etc/warren/ca-certificates.crt"
WARREN_PUBLIC int warren_trust(struct warren_sandbox *sb, int bundle,
			       struct warren_error *err);
WARREN_PUBLIC const char *warren_id(const struct warren_sandbox *sb);
/*
 * Describe the sandbox as text for a process that uses a connection to it. The caller
 * frees the text.
 */
WARREN_PUBLIC int warren_describe(struct warren_sandbox *sb, char **ret_text,
				  size_t *ret_size, struct warren_error *err);
/* Both arrays are borrowed from @sb. */
WARREN_PUBLIC const struct warren_enforcement *
warren_enforced(const struct warren_sandbox *sb, size_t *ret_n);
WARREN_PUBLIC const struct warren_step *warren_trace(const struct warren_sandbox *sb,
						     size_t *ret_n);
/*
 * Build the command by docker's rules: first the image's entrypoint, then @args (NULL or
 * empty: the image's arguments). @entrypoint replaces the image's entrypoint and
 * arguments ("": no entrypoint). The command is one allocation, which the caller frees.
 * -EINVAL: the command is empty.
 */
WARREN_PUBLIC int warren_command(const struct warren_sandbox *sb, const char *entrypoint,
				 const char *const *args, const char ***ret_argv,
				 struct warren_error *err);
/* What warren_save_files() copied. */
struct warren_saved {
	uint64_t files;     /* files of all kinds, and directories */
	uint64_t bytes;     /* contents, without holes */
	uint64_t frozen_ns; /* how long the processes were stopped */
};

/* Do not stop the processes, because the caller knows that none of them writes. */
#define WARREN_SAVE_UNFROZEN (1U << 0)
/*
 * Kill all processes first instead of stopping them, for a sandbox that is destroyed
 * afterwards. If the caller is killed during the copy, no process is left. Only the
 * native backend supports this.
 */
#define WARREN_SAVE_KILL (1U << 1)
/*
 * Copy everything that was written to the root into the empty directory @dir, as it is at
 * one moment: all processes of the sandbox are stopped until the copy is complete. The
 * result is a layer for overlayfs (with userxattr), relative to the image; mounts are not
 * part of it. The copy is made with the privileges of the sandbox's root. -ENOSPC: the
 * message says how much space is needed. -ESTRPIPE: the processes could not continue
 * afterwards, and the sandbox is paused.
 */
WARREN_PUBLIC int warren_save_files(struct warren_sandbox *sb, int dir, unsigned flags,
				    struct warren_saved *ret, struct warren_error *err);
/* A difference between the files of a sandbox and those of its image or a snapshot. */
struct warren_change {
	uint32_t record_size; /* of this record, with the path; a multiple of 8 */
	uint32_t kind;        /* 'A': added; 'C': changed; 'D': deleted */
	/* The file; if it was deleted, that of the image or snapshot. */
	uint32_t mode; /* type and permissions, as in stat(2) */
	uint32_t uid, gid;
	uint32_t mtime_nsec;
	int64_t mtime_sec;
	uint64_t size;
	char path[]; /* "/..."; any bytes except NUL, which ends it */
};

/* Which changes warren_diff() returns, and what it found. */
struct warren_diff {
	uint64_t skip; /* do not return the first changes */
	uint64_t max;  /* maximum number of changes to return; 0: WARREN_DIFF_MAX */
	/*
	 * The id of the image to compare with, whose layers begin with those of the
	 * sandbox's image, such as a snapshot of the sandbox; NULL: the sandbox's image.
	 */
	const char *image;
	unsigned seconds; /* give up after this time; 0: never */
	int cancel;       /* give up when this descriptor can be read; 0: none */
	/* The result: */
	uint64_t n;    /* changes that were returned */
	bool more;     /* there are more changes after these */
	bool too_deep; /* some directories are nested too deeply, and were not compared */
};

#define WARREN_DIFF_MAX 1000000
/*
 * Compare the files of the sandbox with its image, and append a struct warren_change for
 * each difference to the file @fd, at most 16 MiB. A directory comes before its entries,
 * but of a directory that was deleted, only the directory itself is returned. The time of
 * a directory, mounts, and files with the same contents and attributes as in the image
 * are no differences. The sandbox is not stopped: changes in the meantime may be missing.
 * -ENOMEDIUM: there is no image .image; -EINVAL: its layers do not begin with those of
 * the sandbox's image; -ETIMEDOUT, -ECANCELED: it gave up.
 */
WARREN_PUBLIC int warren_diff(struct warren_sandbox *sb, int fd, struct warren_diff *diff,
			      struct warren_error *err);
/*
 * Keep a copy of the files of a durable sandbox in the state directory, for
 * warren_undo(). It replaces an earlier one (see warren_undo_settle()). All processes are
 * stopped until the copy is complete. -ENOSPC: the message says how much space is needed.
 */
WARREN_PUBLIC int warren_undo_keep(struct warren_sandbox *sb, struct warren_saved *ret,
				   struct warren_error *err);
/* What warren_undo() changed. */
struct warren_undone {
	uint64_t removed;   /* files and directories, without those in directories */
	uint64_t restored;  /* files and directories whose contents came back */
	uint64_t changed;   /* files and directories of which only attributes changed */
	uint64_t frozen_ns; /* how long the processes were stopped */
};

/*
 * Make the files of the sandbox what they were at warren_undo_keep(), and remove the
 * copy. The processes continue; they are stopped for it. A file keeps its inode if it
 * can, so that processes that have opened it see its old contents. -ENOENT: there is no
 * copy. -ENOSPC: nothing has changed. After any other failure, the next call continues.
 */
WARREN_PUBLIC int warren_undo(struct warren_sandbox *sb, struct warren_undone *ret,
			      struct warren_error *err);
/*
 * Say what became of the command for which warren_undo_keep() made the copy, because an
 * earlier copy is kept until then. If it has @started, the earlier copy is removed.
 * Otherwise, the new one is removed, and the earlier one, if there is one, replaces it.
 */
WARREN_PUBLIC int warren_undo_settle(struct warren *w, const char *id, bool started,
				     struct warren_error *err);
/* Remove the copy for warren_undo(); it is no error if there is none. */
WARREN_PUBLIC int warren_undo_forget(struct warren *w, const char *id,
				     struct warren_error *err);
/*
 * Save the files of a durable sandbox to the state directory, where they survive a
 * failure of power, and destroy the sandbox. warren_create() with the same id and
 * .restore brings it back. @sb is freed, except on failure: then the sandbox continues.
 */
WARREN_PUBLIC int warren_hibernate(struct warren_sandbox *sb, struct warren_saved *ret,
				   struct warren_error *err);
/*
 * The same, but without its files: warren_create() with the same id and .restore creates
 * it anew, on the same image.
 */
WARREN_PUBLIC int warren_reset(struct warren_sandbox *sb, struct warren_error *err);
/*
 * The image of the sandbox: "host", "dir:PATH", or the id of an image in the store, even
 * if the sandbox was created with a name. NULL: the backend has its own images. Valid
 * until @sb is freed.
 */
WARREN_PUBLIC const char *warren_image(const struct warren_sandbox *sb);
/* Return 1 if there are saved files of @id, 0 if not, or -errno. */
WARREN_PUBLIC int warren_has_saved(struct warren *w, const char *id,
				   struct warren_error *err);
/* List the ids of sandboxes with .persist whose files exist, like warren_list(). */
WARREN_PUBLIC int warren_list_kept(struct warren *w, char ***ret_ids,
				   struct warren_error *err);
/* Remove the saved files of @id; it is no error if there are none. */
WARREN_PUBLIC int warren_forget_saved(struct warren *w, const char *id,
				      struct warren_error *err);

WARREN_PUBLIC int warren_pause(struct warren_sandbox *sb, struct warren_error *err);
/*
 * Pause the sandbox and save its processes to a file: they end, which frees their memory,
 * and warren_resume() continues them. -EBUSY: a process cannot be saved, and nothing has
 * changed. -EREMOTEIO: the sandbox could not be saved and has ended.
 */
WARREN_PUBLIC int warren_checkpoint(struct warren_sandbox *sb, struct warren_error *err);
WARREN_PUBLIC int warren_resume(struct warren_sandbox *sb, struct warren_error *err);
WARREN_PUBLIC int warren_stats(struct warren_sandbox *sb, struct warren_stats *ret_stats,
			       struct warren_error *err);

/* ------------------------------------------------------------------- execs */

enum warren_stdio {
	WARREN_STDIO_NULL, /* /dev/null of the sandbox */
	WARREN_STDIO_PIPE, /* a pipe; its other end is warren_exec_fd() */
	/* A journal, which the sandbox's init writes; warren_exec_output() reads it. */
	WARREN_STDIO_JOURNAL,
};

struct warren_exec_spec {
	/* NULL-terminated; argv[0] is looked up in the exec's PATH. */
	const char *const *argv;
	const char *const *env; /* added to the sandbox's variables; "NAME=value" */
	const char *cwd;        /* default: the sandbox's workdir */
	const char *user;       /* default: the sandbox's user */
	enum warren_stdio in;   /* NULL or PIPE */
	enum warren_stdio out;
	enum warren_stdio err;
	/*
	 * .in, .out and .err are the same terminal, whose other end is warren_exec_fd(ex,
	 * 0). If .out is a journal, the terminal's output goes there as stream 1, and the
	 * descriptor is only for input and resizing, and does not block.
	 */
	bool pty;
	uint16_t rows, cols;         /* size of the terminal; 0: 24 by 80 */
	struct warren_limits limits; /* only for this exec, within the sandbox's limits */
	uint64_t timeout_ms;         /* kill the process tree after this time; 0: never */
	/* Bytes of output to keep; the oldest is dropped first; 0: 1 MiB. */
	uint64_t journal_limit;
	/*
	 * This is the only exec of its sandbox, and the sandbox ends with it; the result
	 * has the resource usage of the whole sandbox.
	 */
	bool accounts_sandbox;
	/*
	 * Descriptor of an empty file for the journal, open for reading and writing; 0:
	 * use a file in memory.
	 */
	int journal_fd;
	/*
	 * Keep all output until warren_exec_ack() acknowledges it: if the journal is
	 * full, the exec waits.
	 */
	bool hold;
	/*
	 * The numbers that additional descriptors get in the exec; 0: none. What the exec
	 * writes to child_result_fd is stream 3 of the journal, in order: each record
	 * comes after everything that was written to the other streams before it. From
	 * child_wakeup_fd, the exec reads the data that the caller writes to
	 * warren_exec_fd(ex, 3); it may open child_wakeup_fd again through /proc.
	 * child_command_fd is a copy of the caller's descriptor command_fd.
	 */
	uint8_t child_result_fd, child_wakeup_fd, child_command_fd;
	int command_fd;
	/* .env is the whole environment: nothing from the sandbox, no defaults. */
	bool env_only;
};

/*
 * The value of those fields of struct warren_result that were not measured. Backends
 * other than native always measure wall_usec, but not always the others.
 */
#define WARREN_UNKNOWN UINT64_MAX

struct warren_result {
	int exit_code; /* -1 if a signal ended the command */
	int signal;    /* 0 if the command exited */
	bool timed_out;
	bool oom; /* the kernel killed a process of the exec because memory ran out */
	uint64_t wall_usec;
	uint64_t user_usec;
	uint64_t system_usec;
	/*
	 * Maximum memory usage, in bytes: of the process tree if it has a cgroup,
	 * otherwise of its largest process.
	 */
	uint64_t max_memory;
	uint64_t read_bytes;    /* bytes read from storage */
	uint64_t written_bytes; /* bytes written to storage */
};

/*
 * A piece of an exec's journal: output of one stream. Pieces are in the order in which
 * the output arrived.
 */
struct warren_output {
	/* Where the next piece begins, in bytes of output; start with 0. */
	uint64_t cursor;
	int stream; /* 1: stdout; 2: stderr; 3: see child_result_fd */
	/* Bytes written to the caller's buffer; 0: no more at present. */
	size_t size;
	uint64_t lost;    /* bytes dropped between the requested cursor and this piece */
	bool end;         /* .size is 0, and no more output will follow */
	uint64_t skipped; /* bytes so far that did not fit into the file of the journal */
};

/* The processes of an exec that get a signal. */
enum warren_whom {
	WARREN_WHOM_FIRST, /* the first process; SIGKILL goes to all */
	WARREN_WHOM_TREE,  /* all */
	WARREN_WHOM_REST, /* all except the first: what a shell runs, but not the shell */
	/*
	 * The processes of WARREN_WHOM_REST that started after the last record of stream
	 * 3.
	 */
	WARREN_WHOM_NEW,
};

/*
 * Start a command. -ENOENT: there is no such program or working directory; -EACCES,
 * -ENOEXEC: the program cannot be executed. warren_exec_free() releases the handle; it
 * does not end a running exec.
 */
WARREN_PUBLIC int warren_exec(struct warren_sandbox *sb,
			      const struct warren_exec_spec *spec,
			      struct warren_exec **ret_exec, struct warren_error *err);
WARREN_PUBLIC struct warren_exec *warren_exec_free(struct warren_exec *ex);
/*
 * The number of an exec in its sandbox. In a durable sandbox, warren_exec_attach()
 * returns a new handle for the exec with this number, including its stdin; @journal_fd is
 * the file of its journal. If the exec has ended by then, its result is read from that
 * file. -ESRCH: there is no such exec, and no result in the file.
 */
WARREN_PUBLIC uint32_t warren_exec_number(const struct warren_exec *ex);
WARREN_PUBLIC int warren_exec_attach(struct warren_sandbox *sb, uint32_t number,
				     int journal_fd, struct warren_exec **ret_exec,
				     struct warren_error *err);
/*
 * The caller's end of stream @which (0, 1 or 2; 3: of child_wakeup_fd), or -1. The
 * descriptor of warren_exec_fd() is borrowed; the descriptor of warren_exec_take_fd()
 * belongs to the caller. A durable sandbox has a copy of the descriptor of stdin, so
 * closing this one does not close stdin; warren_exec_close_input() does.
 */
WARREN_PUBLIC int warren_exec_fd(const struct warren_exec *ex, int which);
WARREN_PUBLIC int warren_exec_take_fd(struct warren_exec *ex, int which);
/*
 * A descriptor that becomes readable when warren_exec_wait() may have a result. It is
 * borrowed.
 */
WARREN_PUBLIC int warren_exec_wait_fd(const struct warren_exec *ex);
/*
 * Wait for the end. 1: @ret_result is filled; 0: still running after @timeout_ms (-1: no
 * limit).
 */
WARREN_PUBLIC int warren_exec_wait(struct warren_exec *ex, int64_t timeout_ms,
				   struct warren_result *ret_result,
				   struct warren_error *err);
/*
 * Send @sig to the first process of the exec; SIGKILL goes to the whole process tree.
 * -ESRCH: the exec has ended.
 */
WARREN_PUBLIC int warren_exec_signal(struct warren_exec *ex, int sig,
				     struct warren_error *err);
WARREN_PUBLIC int warren_exec_signal_to(struct warren_exec *ex, int sig,
					enum warren_whom whom, struct warren_error *err);
WARREN_PUBLIC int warren_exec_close_input(struct warren_exec *ex,
					  struct warren_error *err);
/* Acknowledge output of an exec with .hold: output before @cursor may be dropped. */
WARREN_PUBLIC int warren_exec_ack(struct warren_exec *ex, uint64_t cursor,
				  struct warren_error *err);
WARREN_PUBLIC int warren_exec_resize(struct warren_exec *ex, uint16_t rows, uint16_t cols,
				     struct warren_error *err);
/*
 * An eventfd that becomes readable when the journal has grown or ended; -1: there is no
 * journal. It is borrowed.
 */
WARREN_PUBLIC int warren_exec_output_fd(const struct warren_exec *ex);
WARREN_PUBLIC int warren_exec_output(struct warren_exec *ex, uint64_t cursor, void *buf,
				     size_t size, struct warren_output *ret_output,
				     struct warren_error *err);

/* --------------------------------------------------------- files and ports */

/*
 * Opens @path in the sandbox with the @flags and @mode of open(2), as @user (NULL: the
 * sandbox's user), and returns the descriptor. Every symbolic link is resolved inside the
 * sandbox. O_NONBLOCK is set, so that special files do not block.
 */
WARREN_PUBLIC int warren_file_open(struct warren_sandbox *sb, const char *path, int flags,
				   mode_t mode, const char *user, int *ret_fd,
				   struct warren_error *err);
/*
 * Read a whole file of at most @max bytes (-EFBIG: it is larger). The data is
 * NUL-terminated, and the caller frees it.
 */
WARREN_PUBLIC int warren_file_read(struct warren_sandbox *sb, const char *path,
				   size_t max, char **ret_data, size_t *ret_size,
				   struct warren_error *err);
/* Creates or replaces the file. */
WARREN_PUBLIC int warren_file_write(struct warren_sandbox *sb, const char *path,
				    const void *data, size_t size, mode_t mode,
				    struct warren_error *err);
/* Connect to a TCP port on the sandbox's loopback; the descriptor is blocking. */
WARREN_PUBLIC int warren_connect(struct warren_sandbox *sb, uint16_t port, int *ret_fd,
				 struct warren_error *err);

/* ------------------------------------------------------------ code runs */

struct warren_code_file {
	const char *name; /* relative to /sandbox, the working directory */
	const void *data;
	size_t size;
};

/* A program to run once. In all fields but the first two, 0 or NULL is the default. */
struct warren_code {
	const char *language; /* "python", "typescript", ...: see doc/code.md for all */
	const char *code;
	size_t code_size;        /* default: strlen(.code) */
	const char *const *args; /* NULL-terminated */
	const char *const *env;  /* "NAME=value"; NULL-terminated */
	const void *input;       /* stdin of the program; default: empty */
	size_t input_size;
	const struct warren_code_file *files; /* written next to the program */
	size_t n_files;
	/* Globs of the files to return, such as "*.png"; NULL-terminated. */
	const char *const *artifacts;
	const char *image;   /* default: "host" */
	uint64_t timeout_ms; /* default: 30 s */
	uint64_t memory;     /* bytes; default: 256 MiB */
	uint64_t disk;       /* bytes in /sandbox, which is in memory; default: 64 MiB */
	uint64_t pids;       /* default: 50 */
	uint64_t max_output; /* bytes of each stream; default: 1 MiB */
};

struct warren_code_result {
	struct warren_result
		exec;  /* result of the program, or of the compiler if it failed */
	bool compiler; /* the compiler failed, and the program did not run */
	int exit_code; /* 128 + a signal that ended the program; 124 after a timeout */
	uint64_t duration_usec; /* duration of the compiler and the program together */
	struct {
		char *data; /* NUL-terminated */
		size_t size;
		bool truncated;             /* the program wrote more than .max_output */
	} output[2];                        /* stdout and stderr */
	struct warren_code_file *artifacts; /* sorted by name */
	size_t n_artifacts;
	/*
	 * Whether all artifacts are included; false if a limit (256 files, 16 MiB) was
	 * reached.
	 */
	bool artifacts_complete;
	/*
	 * What was enforced, as in warren_enforced(); a default limit may not be
	 * enforced.
	 */
	struct warren_enforcement *enforced;
	size_t n_enforced;
};

/*
 * Run a program once, in a new sandbox that is destroyed afterwards: without a network,
 * with a read-only root. A program that fails is a result, not an error. -EINVAL: a field
 * is wrong, and the error begins with its name; -ENOENT: the image lacks the tool for the
 * language, which the error names. On success, warren_code_done() frees the result.
 */
WARREN_PUBLIC int warren_code(struct warren *w, const struct warren_code *code,
			      struct warren_code_result *ret, struct warren_error *err);
WARREN_PUBLIC void warren_code_done(struct warren_code_result *result);

#ifdef __cplusplus
}
#endif
#endif /* WARREN_H */
