/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver.h - the contract of a driver for a platform
 *
 * A sandbox of the native backend has an init inside. One of docker, of gVisor, or of
 * anything else that can run a command has a shim instead: a process on the host that
 * uses the same protocol (proto/init_proto.h), keeps the same journals, and lives as long
 * as the sandbox. Nothing is installed in the image, nothing listens in it, and clients
 * of a sandbox need not know which of the two they talk to.
 *
 * A platform provides create, exec, destroy and probe. For other functions that are NULL,
 * the shim uses exec with the image's own shell, or answers "not supported by backend X".
 *
 * Every function except exec() runs in a process that may wait; the shim ends one that
 * takes longer than SHIM_PATIENCE. A platform must find everything about a sandbox again
 * by the sandbox's id (a container's name and label, a directory): any process may call
 * destroy(), even after a crash, and even if create() did nothing.
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

#define SHIM_PATIENCE     60000 /* ms; pulling an image: forever, with progress */
#define SHIM_ENFORCED_MAX 24

/* One sandbox, as its platform sees it. */
struct shim_sandbox {
	const struct shim_driver *driver;
	const char *name; /* of the backend: "docker", or as the configuration names it */
	const json_t *config;  /* its settings in the configuration; may be NULL */
	const char *state_dir; /* of the engine: images are there */
	char dir[256]; /* the sandbox's own directory, below the engine's run_dir */
	char id[ID_LEN + 1];
	/*
	 * The machine's /proc, because a shim with a pid namespace has another one: a
	 * platform names the processes that it started by the pids there.
	 */
	int machine;
	/*
	 * create() may also set: whether it failed and left nothing, so that destroy() is
	 * not needed; and the cgroup that counts processes killed because memory ran out,
	 * for a sandbox that survives this (os/cgroup.h); -1: it is not visible.
	 */
	bool clean;
	int memory;
	/*
	 * And a connection to a guest agent inside, which serves files and ports like an
	 * init (agent/guest/guest_server.c), -1: none; and the default user and directory
	 * of commands, from the spec or the image, NULL: root and "/".
	 */
	int within;
	char *user, *cwd;
	/*
	 * The platform's name for it, if that is not .id, for as long as this process
	 * lives; and its first process as a directory of the machine's /proc, -1: it is
	 * not visible.
	 */
	char handle[65];
	int first;
	/* What must stay open for restore(); -1: nothing. */
	int held;
	/*
	 * And the path of the guest agent's program inside, which commands can run; NULL:
	 * none.
	 */
	const char *helper;
	size_t n_enforced;
	struct warren_enforcement enforced[SHIM_ENFORCED_MAX];
};

/* One command to run in it. */
struct shim_exec {
	const char *const
		*argv; /* NULL-terminated; argv[0] is looked up in PATH, inside */
	const char *const *env; /* "NAME=value", in addition to the image's own */
	const char *cwd;        /* NULL: the image's */
	const char *user;       /* "name", "uid" or "uid:gid"; NULL: the sandbox's */
	bool pty;               /* 0 is a terminal, here and inside; see resize */
	bool stdin_open;        /* 0 is not /dev/null */
	bool tell_start;        /* the shim waits for SHIM_STARTED */
	/*
	 * Descriptor for the outcome, one struct shim_outcome, written before the process
	 * ends. It is descriptor 3 in the process of exec(), which has only 0 to 3; a
	 * process that does not need it sets close-on-exec. Without an outcome, the
	 * process's own exit status counts as the command's.
	 */
	int outcome_fd;
};

enum shim_verdict {
	SHIM_EXITED,   /* code: 0 to 255 */
	SHIM_SIGNALED, /* code: the signal. By convention 128+n where a platform knows no
			  more */
	SHIM_NOT_STARTED, /* err says why; code is ENOENT, EACCES, ... */
	/*
	 * For a platform that can report it (tells_start): written first, when the
	 * command runs; code: its pid inside, 0: not known. The shim requests it
	 * (tell_start) if the image has no shell to report it, or if none is needed
	 * (tells_all).
	 */
	SHIM_STARTED,
	/* The sandbox was ended, and the command with it: its result is not known. */
	SHIM_LOST,
};

struct shim_outcome {
	enum shim_verdict verdict;
	int code;
	struct warren_error err; /* if it was killed: ENOMEM if memory ran out */
};

/* Receives the progress of the layers of an image that is pulled. */
struct shim_driver_pull {
	void (*tell)(struct shim_driver_pull *pull, const char *digest, const char *phase,
		     uint64_t done, uint64_t total);
};

struct shim_driver {
	const struct backend_kind *kind;
	bool tells_start; /* see SHIM_STARTED */
	bool tells_all;   /* and always the pid, or why it does not run */
	bool own_kernel;  /* which may refuse calls of the image's tools: the shim tests
			     this */
	/*
	 * Its tools must see the machine's own pids, so the shim has no pid namespace:
	 * processes that it starts must end by PR_SET_PDEATHSIG, or by themselves.
	 */
	bool host_pids;

	/*
	 * Started processes may continue after their tool and the sandbox have ended (for
	 * example on another machine): they are found by their environment, and killed,
	 * before destroy().
	 */
	bool outlived;

	/*
	 * The path inside of the guest agent's program, if the sandbox has a pid
	 * namespace: it can signal everyone there (agent/guest/main.c). NULL: none.
	 */
	const char *guest;

	/*
	 * What this machine and this configuration allow; count or -errno. @name: as in
	 * the sandbox.
	 */
	int (*probe)(const char *name, const json_t *config,
		     struct warren_feature *features, size_t max,
		     struct warren_error *err);

	/*
	 * When it returns 0, the sandbox is ready to exec. It enforces each limit of the
	 * spec or fails (-EOPNOTSUPP, naming the field), and reports what is enforced
	 * with shim_sandbox_enforce(). After a failure nothing is left, or destroy() is
	 * called until nothing is.
	 */
	int (*create)(struct shim_sandbox *p, const struct warren_spec *spec,
		      struct warren_error *err);
	/* Only by id; 0 even if there is nothing. When it returns 0, nothing is left. */
	int (*destroy)(struct shim_sandbox *p, struct warren_error *err);

	/*
	 * Runs in a separate process with 0, 1 and 2 for the command, which ends when the
	 * command has ended and all its output is written: execute another program, or
	 * relay the streams and write the outcome. Does not return. SIGTERM ends it in
	 * any case; SIGWINCH means that the terminal at 0 has a new size.
	 */
	__attribute__((noreturn)) void (*exec)(struct shim_sandbox *p,
					       const struct shim_exec *e);

	/* From here on NULL is allowed. */

	/*
	 * Pull an image into its daemon; @missing: only if the daemon does not have it.
	 * Reports progress to @pull->tell(), and returns the image in *@ret, in the
	 * format of `warren image inspect`.
	 */
	int (*pull)(const char *name, const json_t *config, const char *image,
		    bool missing, struct shim_driver_pull *pull, json_t **ret,
		    struct warren_error *err);

	/*
	 * Seconds that a step may take beyond the configured "timeout", if that is the
	 * time limit for another process: its error says more about who did not answer.
	 */
	int slack;
	/*
	 * Waits until the sandbox has ended (stopped, killed, or removed by another
	 * process). 1: its first process was ended from inside, if none of those of
	 * has_process() was killed.
	 */
	int (*wait)(struct shim_sandbox *p, struct warren_error *err);
	/*
	 * If the processes of the sandbox are the shim's children: is @pid one of them?
	 */
	bool (*has_process)(struct shim_sandbox *p, int pid);
	/*
	 * Why a sandbox has ended, as far as it is known. Must not wait: the shim does.
	 */
	void (*explain)(struct shim_sandbox *p, struct warren_error *ret);
	int (*pause)(struct shim_sandbox *p, bool paused, struct warren_error *err);
	/*
	 * A pause that needs no memory; all three functions or none. savable() checks
	 * whether it is possible, and waits a little for processes that are about to end;
	 * -EBUSY: the message names the process that prevents it: @pid, if it is not 0
	 * (-1: not known), because the caller waits for its end. save() writes everything
	 * to @image, an empty file: when it returns 0, no process of the sandbox runs.
	 * restore() continues it from there, with @held. For both, -EREMOTEIO means that
	 * the sandbox has ended; after another error it is unchanged.
	 */
	int (*savable)(struct shim_sandbox *p, int pid, struct warren_error *err);
	int (*save)(struct shim_sandbox *p, int image, struct warren_error *err);
	int (*restore)(struct shim_sandbox *p, int image, int held,
		       struct warren_error *err);
	int (*stats)(struct shim_sandbox *p, struct warren_stats *ret,
		     struct warren_error *err);
	int (*update)(struct shim_sandbox *p, const struct warren_limits *limits,
		      struct warren_error *err);
	/*
	 * If the image has no shell for it: send @sig to all processes of the exec with
	 * WARREN_EXEC=@mark in their environment, or to the first. -ESRCH: there is none.
	 */
	int (*signal)(struct shim_sandbox *p, const char *mark, const char *user,
		      bool all, int sig, struct warren_error *err);
	/*
	 * Why nothing inside answers: -EBUSY, it is paused; -ESRCH, it has ended; 0: it
	 * should answer.
	 */
	int (*silent)(struct shim_sandbox *p, struct warren_error *err);
	/* Copy at most @size bytes of a file from @offset to @to, as root inside. */
	int (*read_file)(struct shim_sandbox *p, const char *path, uint64_t offset,
			 uint64_t size, int to, struct warren_error *err);
	/* Create or replace a file with all data from @from; -ENOSPC, ... */
	int (*write_file)(struct shim_sandbox *p, const char *path, int from,
			  uint64_t size, uint32_t mode, uint32_t uid, uint32_t gid,
			  struct warren_error *err);
};

#define SHIM_DRIVER_EXTERN(name) extern const struct shim_driver shim_driver_##name;
BACKEND_KINDS_SHIMMED(SHIM_DRIVER_EXTERN)

/* Seconds that a step may take: the configuration's "timeout", or SHIM_PATIENCE. */
int shim_sandbox_patience(void);
/*
 * wait_tool.c: the status of the child @pid, which leads a group, when it has ended;
 * -ETIMEDOUT: it took longer than @secs, and neither @in nor @out (-1: none) moved in the
 * meantime; it was killed. The last output from @said_fd (-1: none) goes to @said.
 */
struct buf;
int shim_sandbox_await(pid_t pid, int secs, int said_fd, struct buf *said, int in,
		       int out);
/*
 * streams.c: drop the rights of a process that only moves bytes: if it is root, it
 * becomes an unprivileged user.
 */
void shim_sandbox_drop_rights(void);
void shim_sandbox_enforce(struct shim_sandbox *p, const char *name, bool enforced,
			  const char *fmt, ...) PRINTF_LIKE(4, 5);
/* For exec(): report how it ended, and exit. */
__attribute__((noreturn)) void shim_sandbox_exit(const struct shim_exec *e,
						 const struct shim_outcome *outcome);

#endif /* SHIM_CORE_DRIVER_H */
