/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workers.h - processes that may block, so that the loop does not
 *
 * Two workers, forks of the shim that are started when they are first needed, do
 * everything that needs an answer from inside. A request is passed to a worker unchanged,
 * with its descriptors and the connection that it came from; the worker sends the answer
 * in the form in which it is passed on. A long file operation has a separate process
 * below the worker.
 */
#ifndef SHIM_CORE_WORKERS_H
#define SHIM_CORE_WORKERS_H

#include "shim/core/shim.h"

enum work_kind {
	WORK_REQUEST, /* a message of init_proto.h about files, which follows */
	WORK_SIGNAL,  /* SIGNAL */
	WORK_ALL,     /* SIGNAL for all processes of the sandbox */
	WORK_LIST,    /* LIST, and a file comes along */
	WORK_KILL,    /* execs that are overdue: their targets follow */
	WORK_SAVE,    /* SAVE, and the file comes along */
	WORK_RESTORE, /* RESTORE, and with the file what was held */
	WORK_GONE,    /* a connection has ended: drop what it had begun */
};

/* What goes both ways before the message. */
struct work {
	enum work_kind kind;
	int conn;            /* that sent the request; -1: none */
	uint64_t connection; /* the inode of its socket, which identifies it */
	uint32_t seq;
	struct target target;
	int sig, pid;
	enum proto_whom whom;
};

/* run.c's side. If a worker cannot be asked, the client gets an error. */
void work_request(int c, const void *msg, size_t size, int *fds, size_t n_fds);
void work_signal(int c, const struct exec *ex, const struct proto_signal *msg);
void work_signal_everyone(int c, const struct proto_signal *msg);
void work_list(int c, const struct exec *ex, const struct proto_list *msg, int *fds,
	       size_t n_fds);
/* Both, to the worker of files; -EBUSY: something is being done. */
int work_save(int c, uint32_t seq, enum work_kind kind, int pid, int *fds, size_t n_fds);
/* What identifies connection @c; and that the connection has ended. */
uint64_t work_connection(int c);
void work_gone(uint64_t connection);
/*
 * All targets have the same user. kill_over() gets the outcome. -errno: no worker was
 * asked.
 */
#define WORK_KILLS_MAX 256
int work_kill(const struct target *targets, size_t n);
/* A worker has sent a message. */
void work_heard(unsigned which);
/* When to call work_deadlines() next, ns; 0: never. */
uint64_t work_next(void);
void work_deadlines(void);
/* Whether @pid was a worker. */
bool work_reaped(int pid);

#define WATCH_WORK ((enum watch)(WATCH_OUT + 1)) /* and which */

/* The worker's side: the answer to @w. */
void work_send(const struct work *w, const void *msg, size_t size, int fd);
void work_reply(const struct work *w, long status, uint32_t value, int fd,
		const char *why);
/*
 * Report that the current work, and all that waits for it, takes longer; at least this
 * often.
 */
#define WORK_SIGN_MS 5000
void work_sign(void);

/* exec_procs.c: in a worker */
void tree_work(const struct work *w, int file);
void tree_kill_overdue(const struct work *w, const struct target *targets, size_t n);
void everyone_work(const struct work *w);
/* Kill everything in the sandbox that can be reached. Not in a worker. */
void tree_end(void);
/* port.c: in a worker */
void port_work(const struct work *w, const struct proto_connect *msg);
/* checkpoint.c: in a worker */
void save_work(const struct work *w, int *fds, size_t n_fds);
/* files.c: in a worker */
void files_work(const struct work *w, const void *msg, size_t size, int *fds,
		size_t n_fds);

#endif /* SHIM_CORE_WORKERS_H */
