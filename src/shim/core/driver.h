/* SPDX-License-Identifier: Apache-2.0 */
/*
 * driver.h - the contract of a driver for a platform
 *
 * A sandbox of the native backend has an init inside. One of docker, of gVisor, or of
 * anything else that can run a command has a shim instead: a process on our side that
 * speaks the same protocol (proto/init_proto.h), keeps the same journals, and lives as
 * long as the sandbox does. Nothing is installed in the image, nothing listens in it, and
 * whoever uses a sandbox need not know which of the two it talks to.
 *
 * A platform brings create, exec, destroy and probe. What it leaves NULL the shim does
 * by exec, with a shell of the image's own, or answers "not supported by backend X" for.
 *
 * Every function but exec() runs in a process that may wait; the shim ends one that takes
 * longer than SHIM_PATIENCE. All that a platform must remember of a sandbox it finds
 * again by the sandbox's id (a container's name and label, a directory): destroy() is
 * called by whoever comes, also after a crash, and also when create() never got anywhere.
 *
 * Errors name the platform and the step: "docker: start the container: ...".
 *
 * What comes out of a platform's tools and of the sandbox is not to be trusted.
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
	const json_t *config;  /* what the configuration says of it; may be NULL */
	const char *state_dir; /* of the engine: images are there */
	char dir[256]; /* a directory of the sandbox's own, below the engine's run_dir */
	char id[ID_LEN + 1];
	/*
	 * The machine's /proc, which a shim with a pid namespace has another of: by the
	 * process numbers that are in it a platform speaks of what it started.
	 */
	int machine;
	/*
	 * What create() may say more: that it failed, and nothing is left, so that nobody
	 * need destroy() it; and the cgroup that counts who inside was killed for want of
	 * memory, of a sandbox that outlives that (os/cgroup.h); -1: it is not to be
	 * seen.
	 */
	bool clean;
	int memory;
	/*
	 * And a connection to somebody inside who does file work and reaches ports as an
	 * init does (agent/guest/guest_server.c), -1: nobody; and who and where commands
	 * are that say nothing of it, by the spec or the image, NULL: root, and "/".
	 */
	int within;
	char *user, *cwd;
	/*
	 * By what the platform knows it, if not by .id, for as long as this process
	 * lives; and its first process as a directory of the machine's /proc, -1: it is
	 * not to be seen.
	 */
	char handle[65];
	int first;
	/* What must stay open for restore(); -1: nothing. */
	int held;
	/*
	 * And where the guest agent's program is inside, which commands can run; NULL:
	 * nowhere.
	 */
	const char *helper;
	size_t n_enforced;
	struct warren_enforcement enforced[SHIM_ENFORCED_MAX];
};

/* One command to run in it. */
struct shim_exec {
	const char *const
		*argv; /* NULL-terminated; argv[0] is looked for in PATH, inside */
	const char *const
		*env;    /* "NAME=value", all that it is to have beside the image's own */
	const char *cwd; /* NULL: the image's */
	const char *user; /* "name", "uid" or "uid:gid"; NULL: the sandbox's */
	bool pty;         /* 0 is a terminal, on our side and so inside; see resize */
	bool stdin_open;  /* 0 is more than /dev/null */
	bool tell_start;  /* SHIM_STARTED is waited for */
	/*
	 * Where the outcome goes, as one struct shim_outcome, written before the process
	 * ends. Descriptor 3 in the process of exec(), which has no others but 0 to 3;
	 * close-on-exec is set by whoever does not need it. Who writes none has its
	 * own exit status taken for the command's.
	 */
	int outcome_fd;
};

enum shim_verdict {
	SHIM_EXITED,   /* code: 0 to 255 */
	SHIM_SIGNALED, /* code: the signal. By convention 128+n where a platform knows no
			  more */
	SHIM_NOT_STARTED, /* err says why; code is ENOENT, EACCES, ... */
	/*
	 * Of a platform that can tell (tells_start): written first, when the command
	 * runs; code: its process id inside, 0: not known. It is asked for (tell_start)
	 * where the image has no shell to say so itself, or where none is needed
	 * (tells_all).
	 */
	SHIM_STARTED,
	/* The sandbox was ended, and it with it: nobody knows how it would have. */
	SHIM_LOST,
};

struct shim_outcome {
	enum shim_verdict verdict;
	int code;
	struct warren_error err; /* of one that was killed: ENOMEM, for want of memory */
};

/* Who hears of the layers of an image that is pulled. */
struct shim_driver_pull {
	void (*tell)(struct shim_driver_pull *pull, const char *digest, const char *phase,
		     uint64_t done, uint64_t total);
};

struct shim_driver {
	const struct backend_kind *kind;
	bool tells_start; /* see SHIM_STARTED */
	bool tells_all;   /* and always the process id, or why it does not run */
	bool own_kernel;  /* which may refuse what tools of the image ask: that is looked
			     for */
	/*
	 * Its tools must see the machine's own process numbers, and so the shim has no
	 * pid namespace: what it starts must end by PR_SET_PDEATHSIG, or by itself.
	 */
	bool host_pids;

	/*
	 * What was started may go on when its tool and the sandbox have ended (on another
	 * machine, say): it is found by its environment, and killed, before destroy().
	 */
	bool outlived;

	/*
	 * What this machine and this configuration allow; count or -errno. @name: as of
	 * place.
	 */
	int (*probe)(const char *name, const json_t *config,
		     struct warren_feature *features, size_t max,
		     struct warren_error *err);

	/*
	 * Ready to exec when it returns 0. A limit of the spec is kept or this fails
	 * (-EOPNOTSUPP, naming the field); what is enforced goes to
	 * shim_sandbox_enforce(). On failure nothing is left, or destroy() is called
	 * until it finds that.
	 */
	int (*create)(struct shim_sandbox *p, const struct warren_spec *spec,
		      struct warren_error *err);
	/*
	 * By id alone; 0 also when there is nothing. When it returns 0, nothing is left.
	 */
	int (*destroy)(struct shim_sandbox *p, struct warren_error *err);

	/*
	 * In its own process that has 0, 1 and 2 for the command, and ends when the
	 * command has ended and all its output is written: become another program, or
	 * relay the streams and write the outcome. Does not return. SIGTERM ends it in
	 * any case; SIGWINCH says that the terminal at 0 has another size now.
	 */
	__attribute__((noreturn)) void (*exec)(struct shim_sandbox *p,
					       const struct shim_exec *e);

	/* From here on NULL is allowed. */

	/*
	 * An image that its daemon is to have, @missing: only if it has not. Steps of it
	 * go to @pull->tell(); what it is then to *@ret, as `warren image inspect` shows
	 * one.
	 */
	int (*pull)(const char *name, const json_t *config, const char *image,
		    bool missing, struct shim_driver_pull *pull, json_t **ret,
		    struct warren_error *err);

	/*
	 * Seconds that a step may take beyond the configured "timeout", where that is
	 * what is given to somebody else for an answer: who did not answer is better
	 * known there.
	 */
	int slack;
	/*
	 * Waits until the sandbox is no more (stopped, killed, removed by somebody else).
	 * 1: its first process was ended from inside, if none of those of has_process()
	 * was killed.
	 */
	int (*wait)(struct shim_sandbox *p, struct warren_error *err);
	/*
	 * Where processes that the sandbox consists of are the shim's children: is that
	 * one of them?
	 */
	bool (*has_process)(struct shim_sandbox *p, int pid);
	/*
	 * Of one that is no more: why, as far as it can be told. At once: the shim waits.
	 */
	void (*explain)(struct shim_sandbox *p, struct warren_error *ret);
	int (*pause)(struct shim_sandbox *p, bool paused, struct warren_error *err);
	/*
	 * A pause that needs no memory; all or none. savable() looks whether it can be
	 * done, and waits a little for those who are about to end; -EBUSY: who inside
	 * keeps it from that, in words: @pid, if it is not 0 (-1: not known), since its
	 * end is waited for. save() writes all to @image, an empty file: when it returns
	 * 0, nothing of the sandbox runs any more. restore() makes it go on from there,
	 * with @held. Of either -EREMOTEIO is the end of the sandbox, and with another
	 * error it is as it was.
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
	 * Where the image has no shell to do it with: @sig to all processes of the exec
	 * that have WARREN_EXEC=@mark in their environment, or to the first. -ESRCH: to
	 * none.
	 */
	int (*signal)(struct shim_sandbox *p, const char *mark, const char *user,
		      bool all, int sig, struct warren_error *err);
	/*
	 * Why nobody inside answers: -EBUSY, it is paused; -ESRCH, it has ended; 0: it
	 * should.
	 */
	int (*silent)(struct shim_sandbox *p, struct warren_error *err);
	/*
	 * The bytes of a file, as root inside, from @offset on, at most @size of them, to
	 * @to.
	 */
	int (*read_file)(struct shim_sandbox *p, const char *path, uint64_t offset,
			 uint64_t size, int to, struct warren_error *err);
	/* A whole file from @from until its end, made or replaced; -ENOSPC, ... */
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
 * -ETIMEDOUT: it took longer than @secs, and neither @in nor @out (-1: none) moved
 * in the meantime; it was killed. The last of what comes from @said_fd (-1: none) goes to
 * @said.
 */
struct buf;
int shim_sandbox_await(pid_t pid, int secs, int said_fd, struct buf *said, int in,
		       int out);
/*
 * streams.c: of a process that only moves bytes: it is nobody from here on, where we are
 * root.
 */
void shim_sandbox_drop_rights(void);
void shim_sandbox_enforce(struct shim_sandbox *p, const char *name, bool enforced,
			  const char *fmt, ...) PRINTF_LIKE(4, 5);
/* For exec(): say how it ended, and end. */
__attribute__((noreturn)) void shim_sandbox_exit(const struct shim_exec *e,
						 const struct shim_outcome *outcome);

#endif /* SHIM_CORE_DRIVER_H */
