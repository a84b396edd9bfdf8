/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workers.h - processes that may block, so that the loop need not
 *
 * Two workers do everything that needs an answer from inside. They are forked from the
 * shim when they are first needed. The shim passes a request to a worker unchanged, with
 * its descriptors and the number of its connection; the worker returns the reply in the
 * form that the client gets. A worker starts a separate process for a long file
 * operation.
 */
#ifndef SHIM_CORE_WORKERS_H
#define SHIM_CORE_WORKERS_H

#include "shim/core/shim.h"

enum work_kind {
	WORK_REQUEST, /* a message of init_proto.h about files, which follows */
	WORK_SIGNAL,  /* SIGNAL */
	WORK_ALL,     /* SIGNAL for all processes of the sandbox */
	WORK_LIST,    /* LIST, with a file */
	WORK_KILL,    /* kill overdue execs; their targets follow */
	WORK_SAVE,    /* SAVE, with the file */
	WORK_RESTORE, /* RESTORE, with the file and shim_sandbox.held */
	WORK_GONE,    /* a connection has ended: abandon its work */
};

/* Header of each message, in both directions. */
struct work {
	enum work_kind kind;
	int conn;            /* the connection that sent the request; -1: none */
	uint64_t connection; /* the inode of its socket, which identifies it */
	uint32_t seq;
	struct target target;
	int sig, pid;
	enum proto_whom whom;
};

/* Pass a request to a worker. If no worker can be reached, the client gets an error. */
void work_request(int c, const void *msg, size_t size, int *fds, size_t n_fds);
void work_signal(int c, const struct exec *ex, const struct proto_signal *msg);
void work_signal_everyone(int c, const struct proto_signal *msg);
/*
 * While all processes inside are being killed, a command that starts could be killed with
 * them: it waits until this descriptor is readable. The service sends no command in the
 * meantime, but one that was killed during a stop leaves its request, and the next one
 * does not know of it. -1: nothing is being killed.
 */
int work_kill_gate(void);
void work_list(int c, const struct exec *ex, const struct proto_list *msg, int *fds,
	       size_t n_fds);
/* Start SAVE or RESTORE in the file worker; -EBUSY: the worker is busy. */
int work_save(int c, uint32_t seq, enum work_kind kind, int pid, int *fds, size_t n_fds);
/*
 * work_connection() returns the identity of connection @c; work_gone() reports its end to
 * the workers.
 */
uint64_t work_connection(int c);
void work_gone(uint64_t connection);
/*
 * Kill @targets, which all have the same user. kill_over() gets the result. -errno: no
 * worker could be reached.
 */
#define WORK_KILLS_MAX 256
int work_kill(const struct target *targets, size_t n);
/* Process a message from a worker. */
void work_heard(unsigned which);
/* When to call work_deadlines() next, ns; 0: never. */
uint64_t work_next(void);
void work_deadlines(void);
/* Handle the end of process @pid; return whether it was a worker. */
bool work_reaped(int pid);

/* A kind of watch; its argument is the number of the worker. */
#define WATCH_WORK ((enum watch)(WATCH_OUT + 1))

/* For workers: send the reply to @w. */
void work_send(const struct work *w, const void *msg, size_t size, int fd);
void work_reply(const struct work *w, long status, uint32_t value, int fd,
		const char *why);
/*
 * Report that the current work takes longer, and so do all requests that wait for it.
 * Call this at least every WORK_SIGN_MS.
 */
#define WORK_SIGN_MS 5000
void work_sign(void);

/* exec_procs.c: in a worker */
void tree_work(const struct work *w, int file);
void tree_kill_overdue(const struct work *w, const struct target *targets, size_t n);
void everyone_work(const struct work *w);
/* Kill all processes in the sandbox that can be reached. Not in a worker. */
void tree_end(void);
/* port.c: in a worker */
void port_work(const struct work *w, const struct proto_connect *msg);
/* checkpoint.c: in a worker */
void save_work(const struct work *w, int *fds, size_t n_fds);
/* files.c: in a worker */
void files_work(const struct work *w, const void *msg, size_t size, int *fds,
		size_t n_fds);

#endif /* SHIM_CORE_WORKERS_H */
