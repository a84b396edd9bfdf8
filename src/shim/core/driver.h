/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver.h - the interface that a driver for a platform implements
 *
 * A sandbox of the native backend has an init inside. A sandbox of docker, gVisor or any
 * other platform that can run a command has a shim instead: a process on the host that
 * uses the same protocol (proto/init_proto.h), writes the same journals, and lives as
 * long as the sandbox. Nothing is installed in the image, no process listens in it, and
 * clients need not know whether they talk to an init or a shim.
 *
 * A driver provides create, exec, destroy and probe. If another function is NULL, the
 * shim runs the image's shell through exec where possible, and otherwise answers "not
 * supported by backend X".
 *
 * Every function except exec() runs in a process that may block; the shim kills one that
 * takes longer than SHIM_PATIENCE. A driver must be able to find everything that belongs
 * to a sandbox by the sandbox's id (a container's name and label, a directory). Any
 * process may call destroy(), even after a crash, and even if create() did nothing.
 *
 * Errors name the platform and the step: "docker: start the container: ...".
 *
 * The output of a platform's tools and of the sandbox is untrusted.
 */
#ifndef SHIM_CORE_DRIVER_H
#define SHIM_CORE_DRIVER_H

#include <jansson.h>
#include <sys/types.h>

#include "backend/kind.h"
#include "base/error.h"
#include "base/id.h"

#define SHIM_PATIENCE     60000 /* in ms; pulling an image has no time limit */
#define SHIM_ENFORCED_MAX 24
/* In the directory of a sandbox that hibernates (backend/shimmed/save.c). */
#define SHIM_SAVED_FILES  "files"
#define SHIM_SAVED_MEMORY "memory"
#define SHIM_SAVED_IMAGE  "image"
#define SHIM_SAVED_RESET  "reset"

/* One sandbox, as the driver of its platform sees it. */
struct shim_sandbox {
	const struct shim_driver *driver;
	const char *name; /* backend: "docker", or its name in the configuration */
	const json_t
		*config; /* settings of the backend in the configuration; may be NULL */
	const char *state_dir; /* state directory of the engine; contains the images */
	/*
	 * The directory that has a directory for each sandbox of the engine that
	 * hibernates, named after its id (backend/shimmed/save.c). NULL: an older version
	 * created the sandbox.
	 */
	const char *saved_dir;
	char dir[256]; /* the sandbox's directory, below the engine's run_dir */
	char id[ID_LEN + 1];
	/*
	 * The host's /proc, in which platforms identify the processes they started. The
	 * shim's own /proc may be that of another pid namespace.
	 */
	int machine;
	/*
	 * create() may also set these. clean: create() failed and left nothing behind, so
	 * destroy() is not needed. memory: the cgroup that counts OOM kills, for a
	 * sandbox that survives them (os/cgroup.h); -1: not visible.
	 */
	bool clean;
	int memory;
	bool unchanged; /* pause() may set this */
	/*
	 * within: a connection to a guest agent inside, which serves files and ports like
	 * an init (agent/guest/guest_server.c); -1: none. user, cwd: the default user and
	 * directory of commands, from the spec or the image; NULL: root and "/".
	 */
	int within;
	char *user, *cwd;
	/*
	 * handle: the platform's name for the sandbox while this process lives, if that
	 * is not .id. first: its first process, as a directory of the host's /proc; -1:
	 * not visible.
	 */
	char handle[65];
	int first;
	/* A descriptor that must stay open for restore(); -1: none. */
	int held;
	/*
	 * The directory of the host with everything that was written to the root, a layer
	 * for overlayfs (with userxattr, or without it if the kind is a daemon); -1:
	 * there is none, and no_upper may say why.
	 */
	int upper;
	char no_upper[160];
	/*
	 * The path of the guest agent's program inside the sandbox, where commands can
	 * run it; NULL: none.
	 */
	const char *helper;
	size_t n_enforced;
	struct warren_enforcement enforced[SHIM_ENFORCED_MAX];
};

/* One command to run in a sandbox. */
struct shim_exec {
	const char *const
		*argv; /* NULL-terminated; argv[0] is looked up in PATH, inside */
	const char *const *env; /* "NAME=value", in addition to the image's environment */
	const char *cwd;        /* NULL: that of the image */
	const char *user;       /* "name", "uid" or "uid:gid"; NULL: the sandbox's user */
	bool pty;        /* 0 is a terminal, outside and inside; see SIGWINCH at exec() */
	bool stdin_open; /* 0 is not /dev/null */
	bool tell_start; /* the shim waits for SHIM_STARTED from the driver */
	/*
	 * Descriptor for the outcome, one struct shim_outcome, written before the process
	 * ends. It is descriptor 3 in the process of exec(), which has only 0 to 3; a
	 * process that does not need it sets close-on-exec. Without an outcome, the exit
	 * status of the process counts as that of the command.
	 */
	int outcome_fd;
};

enum shim_verdict {
	SHIM_EXITED,      /* code: 0 to 255 */
	SHIM_SIGNALED,    /* code: the signal, or 128+n from the exit status */
	SHIM_NOT_STARTED, /* err says why; code is ENOENT, EACCES, ... */
	/*
	 * A driver that can report the start (tells_start) writes this first, when the
	 * command runs; code: its pid inside, 0: unknown. The shim requests it
	 * (tell_start) if the image has no shell to report it, or if none is needed
	 * (tells_all).
	 */
	SHIM_STARTED,
	/* The sandbox ended, and the command with it; its result is unknown. */
	SHIM_LOST,
};

struct shim_outcome {
	enum shim_verdict verdict;
	int code;
	struct warren_error err; /* if the command was killed: ENOMEM if memory ran out */
};

/* Receives the progress of the layers of an image that is pulled. */
struct shim_driver_pull {
	void (*tell)(struct shim_driver_pull *pull, const char *digest, const char *phase,
		     uint64_t done, uint64_t total);
};

struct shim_driver {
	const struct backend_kind *kind;
	bool tells_start; /* see SHIM_STARTED */
	/*
	 * The driver always reports the start, with the pid, or why the command does not
	 * run.
	 */
	bool tells_all;
	bool own_kernel; /* the platform's kernel may refuse system calls of the image's
			    tools: test them */
	/*
	 * The platform's tools must see the host's pids, so the shim has no pid
	 * namespace. Processes that it starts must end with it by PR_SET_PDEATHSIG, or by
	 * themselves.
	 */
	bool host_pids;

	/*
	 * Processes may continue after their tool and the sandbox have ended (for example
	 * on another machine). Before destroy(), the shim finds them by their environment
	 * and kills them.
	 */
	bool outlived;

	/*
	 * The path of the guest agent's program inside the sandbox, if the sandbox has a
	 * pid namespace: the program can signal all processes there (agent/guest/main.c).
	 * NULL: none.
	 */
	const char *guest;

	/*
	 * List the features that this machine and this configuration support; return the
	 * count or -errno. @name: see struct shim_sandbox.
	 */
	int (*probe)(const char *name, const json_t *config,
		     struct warren_feature *features, size_t max,
		     struct warren_error *err);

	/*
	 * On success, the sandbox is ready for exec. Enforce each limit of the spec or
	 * fail (-EOPNOTSUPP, naming the field), and report what is enforced with
	 * shim_sandbox_enforce(). After a failure, either nothing is left, or destroy()
	 * is called until nothing is left.
	 *
	 * With spec.restore, the sandbox hibernated, and gets its files back:
	 * SHIM_SAVED_FILES in its directory in .saved_dir or, if the platform keeps files
	 * itself, those that destroy() left there. SHIM_SAVED_IMAGE is their image.
	 * SHIM_SAVED_MEMORY, if it exists, contains the output of save(): the processes
	 * continue. If shim_sandbox_is_reset(), the sandbox starts again from
	 * SHIM_SAVED_IMAGE.
	 */
	int (*create)(struct shim_sandbox *p, const struct warren_spec *spec,
		      struct warren_error *err);
	/*
	 * Destroy the sandbox, using only its id. 0 means that nothing is left, even if
	 * there was nothing before. If the sandbox hibernates (shim_sandbox_is_saved()),
	 * a platform that keeps the files of a stopped sandbox stops it instead.
	 */
	int (*destroy)(struct shim_sandbox *p, struct warren_error *err);

	/*
	 * Run a command; never returns. This is a separate process with 0, 1 and 2 for
	 * the command. It executes another program, or relays the streams and writes the
	 * outcome, and ends when the command has ended and all its output is written.
	 * SIGTERM must always end it; SIGWINCH means that the terminal at 0 has a new
	 * size.
	 */
	__attribute__((noreturn)) void (*exec)(struct shim_sandbox *p,
					       const struct shim_exec *e);

	/* All functions below may be NULL. */

	/*
	 * Pull an image into the platform's daemon; @missing: only if the daemon does not
	 * have it. Report progress to @pull->tell(), and return the image in *@ret, in
	 * the format of `warren image inspect`.
	 */
	int (*pull)(const char *name, const json_t *config, const char *image,
		    bool missing, struct shim_driver_pull *pull, json_t **ret,
		    struct warren_error *err);

	/*
	 * Seconds that a step may take beyond the configured "timeout". For drivers that
	 * apply the timeout to another process, such as a daemon, and can report better
	 * what did not answer.
	 */
	int slack;
	/*
	 * Wait until the sandbox has ended (stopped, killed, or removed by another
	 * process). Return 1 if a process inside ended the first process of the sandbox.
	 * (If a process of has_process() was killed, that was the reason instead.)
	 */
	int (*wait)(struct shim_sandbox *p, struct warren_error *err);
	/*
	 * If the processes of the sandbox are the shim's children: whether @pid is one.
	 */
	bool (*has_process)(struct shim_sandbox *p, int pid);
	/*
	 * Say why a sandbox has ended, if it is known. Must not block, because the shim's
	 * loop calls it.
	 */
	void (*explain)(struct shim_sandbox *p, struct warren_error *ret);
	/* After a failure, it may have done its work, unless it has set @unchanged. */
	int (*pause)(struct shim_sandbox *p, bool paused, struct warren_error *err);
	/*
	 * A pause that needs no memory; a driver has all three functions or none.
	 * savable() checks whether it is possible, and waits a little for processes that
	 * are about to end. On -EBUSY, the message names the process that prevents it:
	 * @pid, if it is not 0 (-1: unknown), because the caller waits for its end.
	 * save() writes everything to @image, an empty file; after success, no process of
	 * the sandbox runs. restore() continues it from there, with @held. For both,
	 * -EREMOTEIO means that the sandbox has ended; after another error it is
	 * unchanged.
	 */
	int (*savable)(struct shim_sandbox *p, int pid, struct warren_error *err);
	int (*save)(struct shim_sandbox *p, int image, struct warren_error *err);
	int (*restore)(struct shim_sandbox *p, int image, int held,
		       struct warren_error *err);
	int (*stats)(struct shim_sandbox *p, struct warren_stats *ret,
		     struct warren_error *err);
	/*
	 * Open the network namespace of all sockets of the sandbox, for capture_open().
	 * No process inside may be able to change it.
	 */
	int (*network)(const struct shim_sandbox *p, int *ret_ns,
		       struct warren_error *err);
	/*
	 * Open the mount namespace of the sandbox's processes, for ca_mount(). Optional.
	 */
	int (*mounts)(const struct shim_sandbox *p, int *ret_ns,
		      struct warren_error *err);
	int (*update)(struct shim_sandbox *p, const struct warren_limits *limits,
		      struct warren_error *err);
	/*
	 * Used if the image has no shell: send @sig to all processes of the exec with
	 * WARREN_EXEC=@mark in their environment, or only to the first. -ESRCH: there is
	 * none.
	 */
	int (*signal)(struct shim_sandbox *p, const char *mark, const char *user,
		      bool all, int sig, struct warren_error *err);
	/*
	 * Find out why nothing inside answers: -EBUSY: the sandbox is paused; -ESRCH: it
	 * has ended; 0: it should answer.
	 */
	int (*silent)(struct shim_sandbox *p, struct warren_error *err);
	/* Copy at most @size bytes of a file from @offset to @to, as root inside. */
	int (*read_file)(struct shim_sandbox *p, const char *path, uint64_t offset,
			 uint64_t size, int to, struct warren_error *err);
	/*
	 * Create or replace a file with all data from @from; for example, -ENOSPC: the
	 * disk is full.
	 */
	int (*write_file)(struct shim_sandbox *p, const char *path, int from,
			  uint64_t size, uint32_t mode, uint32_t uid, uint32_t gid,
			  struct warren_error *err);
};

#define SHIM_DRIVER_EXTERN(name) extern const struct shim_driver shim_driver_##name;
BACKEND_KINDS_SHIMMED(SHIM_DRIVER_EXTERN)

/* Seconds that a step may take: the configuration's "timeout", or SHIM_PATIENCE. */
int shim_sandbox_patience(void);
/*
 * wait_tool.c: wait for the child @pid, which leads a process group, and return its
 * status. -ETIMEDOUT: it took longer than @secs without data moving through @in or @out
 * (-1: none), and was killed. @said gets the last output from @said_fd (-1: none).
 */
struct buf;
int shim_sandbox_await(pid_t pid, int secs, int said_fd, struct buf *said, int in,
		       int out);
/*
 * streams.c: drop the privileges of a process that only copies bytes: root becomes an
 * unprivileged user.
 */
void shim_sandbox_drop_rights(void);
void shim_sandbox_enforce(struct shim_sandbox *p, const char *name, bool enforced,
			  const char *fmt, ...) PRINTF_LIKE(4, 5);
/*
 * Open @name in the directory of a sandbox that hibernates, or the directory itself ("");
 * -errno.
 */
int shim_sandbox_saved(const struct shim_sandbox *p, const char *name, int flags);
/* Return whether the sandbox hibernates, or is about to. */
bool shim_sandbox_is_saved(const struct shim_sandbox *p);
/*
 * Return whether a sandbox that hibernates is being reset, and wakes without its files.
 */
bool shim_sandbox_is_reset(const struct shim_sandbox *p);
/*
 * Return whether the processes inside are stopped for a copy of the files: a pause that
 * ends by itself, for which requests wait.
 */
bool shim_sandbox_is_copied(const struct shim_sandbox *p);
/*
 * Read the image of a sandbox that hibernates into @text; return its length, or -errno.
 */
ssize_t shim_sandbox_saved_image(const struct shim_sandbox *p, char *text, size_t size);
/* A driver's exec() calls this: report how the command ended, and exit. */
__attribute__((noreturn)) void shim_sandbox_exit(const struct shim_exec *e,
						 const struct shim_outcome *outcome);

#endif /* SHIM_CORE_DRIVER_H */
