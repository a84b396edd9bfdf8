/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim.h - warren-shim, which replaces init for a sandbox without one: its source files
 *
 *	main.c		the program's commands; finds a sandbox by its directory
 *	pull.c		pulls an image for a platform that has its own images
 *	spec.c		reads the spec of a sandbox from JSON
 *	run.c		the loop, which dispatches requests; like init, the shim has
 *			conn.c, exec.c, exec_attach.c, journal_write.c and spawn.c
 *	exec.c		execs: a process for each, in which the platform runs it
 *	exec_kill.c	finds overdue execs and kills them
 *	wait_tool.c	waits for a tool's process until it ends or its time is up
 *	inspect.c	finds out what is inside: a shell, the user, the environment
 *	workers.c	two processes that may block: one for files, one for signals
 *	shell_pool.c	persistent shells inside, which run one script after another
 *	checkpoint.c	saves a sandbox to a file, and restores it
 *	saved.c		finds the saved files of a sandbox that hibernates
 *	exec_procs.c	lists and signals an exec's processes with scripts (parse_ps.c)
 *	guest_client.c	files and ports through the guest agent, if the platform has one
 *	files.c		otherwise: OPEN and SCAN with scripts; parse_entries.c parses
 *			their output, file_change.c has CHANGE
 *	dir_handle.c	open directories
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
 * Data from the sandbox is untrusted, but can harm only that sandbox: a process inside
 * that answers instead of the shell can only lie about the sandbox itself.
 */
#ifndef SHIM_CORE_SHIM_H
#define SHIM_CORE_SHIM_H

#include <sys/resource.h>
#include <sys/types.h>

#include "agent/core/agent.h"
#include "base/buf.h"
#include "shim/core/driver.h"
#include "shim/core/parse_entries.h"

#define MARK_LEN    ENTRIES_MARK /* 128 random bits */
#define FD_SPEC     5            /* descriptor of the spec, for `run` */
#define FD_VOLUMES  6            /* those of its volumes, in the order of the spec */
#define GRACE_NS    2000000000ULL
#define SIGNAL_SECS 10
#define END_SECS    30 /* time to kill everything inside */
/*
 * Variable in the environment of all processes that the shim starts, if the driver is
 * `outlived`.
 */
#define SANDBOX_NAME "WARREN_BOX"

/* Properties of the sandbox that inspect.c found at the start. */
struct inside {
	char shell[64]; /* absolute path; "": there is no shell */
	uint32_t uid, gid;
	char home[512];
	char cwd[4096];
	char **env;
};

extern struct shim_sandbox this_sandbox;
extern struct inside inside;

/* main.c */
int shim_sandbox_load(const char *dir, json_t **ret_doc, struct warren_error *err);

/* spec.c: the spec points into @doc, and is valid until spec_done(). */
int spec_read(const json_t *doc, struct warren_spec *ret, struct warren_error *err);
void spec_done(struct warren_spec *spec);

/* run.c */
/* Kill everything that runs in the sandbox, then destroy it. */
int shim_sandbox_unmake(struct warren_error *err);
int shim_run(const char *dir, struct warren_error *err);
/* Handle the end of the sandbox. If @why is NULL, ask the driver for the reason. */
void sandbox_died(const struct warren_error *why);
bool sandbox_is_dead(void);
/*
 * watch_start() starts a process that waits for the sandbox's end. watch_has_ended() says
 * whether it ended while save_is_away().
 */
void watch_start(void);
bool watch_has_ended(void);

/* checkpoint.c */
void save_request(int c, const struct proto_save *msg);
/* Handle NAME_MEMORY (proto/init_proto.h): 0 or -errno. */
int save_name_memory(void);
/*
 * Return whether the sandbox is saved, or is being saved or restored: no other request is
 * possible.
 */
bool save_is_away(void);
/* Process the worker's reply, or the death of the worker; then get the error for it. */
void save_over(bool saving, const struct proto_reply *r, size_t size);
void save_died(bool saving, struct warren_error *ret_why);

/* pull.c */
int shim_pull(const struct shim_driver *p, const json_t *config, const char *image,
	      bool missing, struct warren_error *err);
/* Print the last line, with the result. */
void shim_pull_end(int r, const struct warren_error *err);

/* inspect.c */
int inspect_sandbox(struct warren_error *err);
/* Write the data that libwarren needs to the file `made` in the sandbox's directory. */
int learn_note(const struct warren_spec *spec, struct warren_error *err);

/* exec.c */
/* The limit of open files for a command; the shim's limit is higher. */
extern struct rlimit child_nofile;
/* Maximum bytes that a process of child_start() may write to a file of the shim. */
extern rlim_t child_most;
void mark_make(char mark[MARK_LEN + 1]);
/*
 * Set while the sandbox is being destroyed: processes started for that do not belong to
 * it.
 */
extern bool child_apart;

/* A process inside, to be signalled or listed. */
struct target {
	int pid;        /* 0: unknown */
	uint64_t start; /* clock ticks, as seen inside */
	char mark[MARK_LEN + 1];
	char user[32]; /* "": the sandbox's default user */
};

const struct target *child_target(const struct exec *ex);
/*
 * End the exec after a short time. Call this when the exec's processes inside have ended
 * or were not found.
 */
void child_end(struct exec *ex);
/* Postpone the end of the exec's tool, because killing the exec takes longer. */
void child_spare(struct exec *ex);
/* When to call child_deadlines() next, ns; 0: never. */
uint64_t child_next(void);
void child_deadlines(void);

/* exec_kill.c: tree_kill() of hooks.h, and what follows it */
/* Give execs that wait for the worker more time, because the worker is busy. */
void kill_spare(void);
/* Handle the result of killing execs: 0 or -errno; -EBUSY: try again later. */
void kill_over(long status);
/* When to call kill_deadlines() next, ns; 0: never. */
uint64_t kill_next(void);
void kill_deadlines(void);

/*
 * Run one of the shim's own commands inside, in a separate process with the given streams
 * (-1: /dev/null); return its pid or -errno. @user: see struct shim_exec.
 */
pid_t child_start(const char *const *argv, const char *user, int in, int out, int errs,
		  int outcome);

#endif /* SHIM_CORE_SHIM_H */
