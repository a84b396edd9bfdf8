/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim.h - warren-shim, which replaces init for a sandbox without one: its parts
 *
 *	main.c		the program's commands; finds a sandbox by its directory
 *	pull.c		pulls an image for a platform that has its own images
 *	spec.c		reads the spec of a sandbox from JSON
 *	run.c		the loop, which dispatches requests; like init, the shim has
 *			conn.c, exec.c, exec_attach.c, journal_write.c and spawn.c
 *	exec.c		an exec: a process in which the platform runs the command
 *	exec_kill.c	finds overdue execs and kills them
 *	wait_tool.c	waits for a tool's process until it ends or its time is up
 *	inspect.c	finds out what is inside: a shell, the user, the environment
 *	workers.c	two processes that may block: one for files, one for signals
 *	shell_pool.c	persistent shells inside, which run one script after another
 *	checkpoint.c	saves a sandbox to a file, and restores it
 *	exec_procs.c	lists and signals an exec's processes with scripts (parse_ps.c)
 *	guest_client.c	files and ports through the guest agent, if the platform has one
 *	files.c		otherwise: OPEN and SCAN with scripts; parse_entries.c parses
 *			their output, file_change.c has CHANGE
 *	dir_handle.c	directories that are open
 *	file_copy.c	copies the bytes of files
 *	port.c		connects to ports
 *	copy_budget.c	limits the bytes being copied at a time, per sandbox and in total
 *	streams.c	checks the descriptors that clients send
 *	scripts.c	all scripts; an image needs only a POSIX sh and a few tools
 *
 * A shim serves one sandbox, as pid 1 of a pid namespace: when it ends, all of its
 * processes on the host end with it. It lives as long as its sandbox. If it dies, no
 * process can reach the sandbox any more, and the next engine removes it ("warren-shim
 * destroy").
 *
 * The loop never blocks. Each command has a separate process, whose pipes the kernel
 * feeds and drains; files and signals are left to the two workers, so that long file
 * operations do not delay a signal.
 *
 * Data from the sandbox is untrusted, and can harm only that sandbox: a process inside
 * that answers instead of the shell can lie about what is inside.
 */
#ifndef SHIM_CORE_SHIM_H
#define SHIM_CORE_SHIM_H

#include <sys/resource.h>
#include <sys/types.h>

#include "agent/core/agent.h"
#include "base/buf.h"
#include "shim/core/driver.h"
#include "shim/core/parse_entries.h"

#define MARK_LEN    ENTRIES_MARK /* of 128 random bits */
#define FD_SPEC     5            /* where `run` finds the spec */
#define GRACE_NS    2000000000ULL
#define SIGNAL_SECS 10
#define END_SECS    30 /* to kill everything inside */
/*
 * In the environment of all processes that the shim starts, if the driver is `outlived`.
 */
#define SANDBOX_NAME "WARREN_BOX"

/* What is inside, as inspect.c found it at the start. */
struct inside {
	char shell[64]; /* absolute; "": there is none */
	uint32_t uid, gid;
	char home[512];
	char cwd[4096];
	char **env;
};

extern struct shim_sandbox place;
extern struct inside inside;

/* main.c */
int shim_sandbox_load(const char *dir, json_t **ret_doc, struct warren_error *err);

/* spec.c: what the spec points to lives as long as @doc and until spec_done(). */
int spec_read(const json_t *doc, struct warren_spec *ret, struct warren_error *err);
void spec_done(struct warren_spec *spec);

/* run.c */
/* Kill everything that runs in the sandbox, then destroy it. */
int shim_sandbox_unmake(struct warren_error *err);
int shim_run(const char *dir, struct warren_error *err);
/* The sandbox has ended; @why may be NULL: then the platform is asked. */
void sandbox_died(const struct warren_error *why);
bool sandbox_is_dead(void);
/*
 * Start a process that waits for the sandbox's end; and whether that came while
 * save_is_away().
 */
void watch_start(void);
bool watch_has_ended(void);

/* checkpoint.c */
void save_request(int c, const struct proto_save *msg);
/* It is saved, or is being saved or restored: no other request is possible. */
bool save_is_away(void);
/* The worker's answer; or that the worker died, and the error for that. */
void save_over(bool saving, const struct proto_reply *r, size_t size);
void save_died(bool saving, struct warren_error *ret_why);

/* pull.c */
int shim_pull(const struct shim_driver *p, const json_t *config, const char *image,
	      bool missing, struct warren_error *err);
/* The last line: how it went. */
void shim_pull_end(int r, const struct warren_error *err);

/* inspect.c */
int inspect_sandbox(struct warren_error *err);
/* Write what libwarren must know about it to the file `made` in its directory. */
int learn_note(const struct warren_spec *spec, struct warren_error *err);

/* exec.c */
/* The limit of open files for a command; the shim's own is higher. */
extern struct rlimit child_nofile;
/* Bytes that a process of child_start() may write to a file of the shim. */
extern rlim_t child_most;
void mark_make(char mark[MARK_LEN + 1]);
/*
 * The sandbox is about to be destroyed: processes started for that do not belong to it.
 */
extern bool child_apart;

/* A process inside, and what is known about it. */
struct target {
	int pid;        /* 0: not known */
	uint64_t start; /* clock ticks, as inside */
	char mark[MARK_LEN + 1];
	char user[32]; /* "": the sandbox's */
};

const struct target *child_target(const struct exec *ex);
/* Its processes inside are gone, or were not found: after a short time, end it. */
void child_end(struct exec *ex);
/* Killing it takes longer: do not end its tool in the meantime. */
void child_spare(struct exec *ex);
/* When to call child_deadlines() next, ns; 0: never. */
uint64_t child_next(void);
void child_deadlines(void);

/* exec_kill.c: init's tree_kill(), and when it is done */
/* The worker is busy: give the execs that wait for it a little more time. */
void kill_spare(void);
/* The execs were killed, or could not be (-errno); -EBUSY: not now. */
void kill_over(long status);
/* When to call kill_deadlines() next, ns; 0: never. */
uint64_t kill_next(void);
void kill_deadlines(void);

/*
 * Run @argv in a separate process, with the given streams (-1: /dev/null): its pid or
 * -errno. @user as in shim_exec. For the shim's own commands inside.
 */
pid_t child_start(const char *const *argv, const char *user, int in, int out, int errs,
		  int outcome);

#endif /* SHIM_CORE_SHIM_H */
