/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent.h - the parts of an agent (init, guest agent, shim), and what they share
 *
 * In src/agent/init, for pid 1 of a native sandbox:
 *
 *	main.c		the loop: one epoll, one signalfd, one timerfd; the dispatch
 *	exec_child.c	from the plan of a SPAWN to an execve(2)
 *	exec_procs.c	lists and signals the processes of an exec
 *	exec_cgroup.c	the cgroup of an exec, v1 and v2
 *	file_worker.c	WORKER: a child that works on files, in the sandbox's memory
 *
 * In src/agent/core, shared by the programs that hooks.h lists:
 *
 *	conn.c		connections: accept, receive, answer, report
 *	outbox.c	messages that did not fit into a connection yet
 *	request.c	the first check of a request
 *	spawn.c		SPAWN: from a message to streams that are in place
 *	exec.c		the table of execs: reaping, deadlines, accounting
 *	exec_attach.c	requests about a running exec: ATTACH, ACK, CLOSE_INPUT
 *	journal_write.c	writes output into a journal
 *	open_connect.c	OPEN and CONNECT, and the dispatch of requests about files
 *	files.c		SCAN, CHANGE and WATCH; paths, and the rights of a user
 *	file_write.c	WRITE
 *	privileges.c	init's user and privileges
 *
 * In src/agent/guest, for the first process of a docker or gVisor sandbox:
 *
 *	main.c		its commands
 *	guest_server.c	serves files and ports, with the parts of the core for these
 *	relay.c		relays bytes between a socket and a port
 *	tools.c		does the work of an image's tools with system calls
 *
 * init runs under the same system call filter and with the same capabilities as the
 * processes it starts, but as a separate user (INIT_ID), which no process inside can
 * become: root inside cannot change its limits, priority or processors. It is not
 * dumpable and its program cannot be read, so nothing inside can trace it or open its
 * /proc files, and the kernel protects pid 1 of a namespace from signals of that
 * namespace. It waits for nothing that runs inside, and trusts only the control
 * connection.
 */
#ifndef AGENT_CORE_AGENT_H
#define AGENT_CORE_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nolibc/sys.h"
#include "proto/init_proto.h"
#include "proto/journal.h"

#define STREAMS 3 /* of a journal; stream n is index n - 1 */

/* One exec, from SPAWN until its first process is reaped and its output is drained. */
struct exec {
	uint32_t id;
	int pid; /* 0: the slot is free or the process has been reaped */
	bool used;
	bool accounts_sandbox; /* accounted as the whole sandbox */
	int group;             /* number of its separate cgroups, -1: none */
	bool limited;          /* its cgroups have limits of their own */
	uint64_t old_kills; /* by the OOM killer, while earlier execs had its cgroups */
	bool timed_out;
	bool killed; /* its cgroup takes no more processes */
	bool failed; /* never started, and its request is answered: reap and forget */
	int start;   /* a pipe that ends when it execs, -1: it has */
	uint64_t start_by; /* ns, monotonic: when that must have happened */
	uint32_t seq;      /* of the request that is answered then */
	int asker;         /* the connection of the request, -1: it has ended */
	uint64_t started;  /* ns, monotonic */
	uint64_t deadline; /* ns, monotonic; 0: none */
	int input; /* the write end of its stdin, or its terminal; -1: not held here */
	bool tty;  /* it is the terminal */
	int poke, command; /* PROTO_CONTROL_*; -1: none */
	bool gone;         /* of a shim: it ended with its sandbox, and has no result */
	int mark;          /* the newest pid when stream 3 last spoke */
	uint32_t hears;    /* connections that get EXITED, as bits */

	/* its journal */
	int journal;                       /* -1: none */
	int notify[PROTO_CONNECTIONS_MAX]; /* eventfds, one a connection; -1: none */
	uint32_t holds;                    /* connections that allow no gaps, as bits */
	uint64_t acked[PROTO_CONNECTIONS_MAX]; /* cursors: what they have read */
	bool held;         /* the ring, or the disk, is full: nothing is drained */
	uint64_t retry_at; /* ns, monotonic: when there may be room on the disk; 0 */
	char *kept;        /* of a terminal: what was read, and waits for room; NULL */
	uint32_t n_kept;
	int pipe[STREAMS]; /* what is drained: stdout or the terminal, stderr, results */
	uint64_t capacity, head, tail, lost, skipped, written;
	uint64_t slot; /* of its index: the beginning of the last record, plus one */
	enum journal_state state;
};

/* A connection of a client. */
struct conn {
	int fd;    /* -1: free */
	bool all;  /* gets EXITED of every exec */
	char *out; /* its outbox; NULL: nothing waits */
	uint32_t out_from, out_to;
};

struct init {
	struct conn
		conns[PROTO_CONNECTIONS_MAX]; /* the first is the maker's at the start */
	int listener;                         /* -1: not durable */
	uint64_t deaf_until; /* ns, monotonic: it is not watched until then; 0: it is */
	bool kept;           /* our end is no longer that of the maker's connection */
	bool gates;          /* of an init: see struct proto_spawn */
	bool workers;        /* of an init: see struct proto_worker */
	bool is_worker;      /* this is one, and no init */
	bool saved;          /* of a shim: nothing of the sandbox runs, and it can go on
				(checkpoint.c) */
	uint32_t last_exec;
	uint64_t oom_kills;
	int epoll;
	int signals;
	int timer;
	int null;
	int n_join, n_join_sandbox;
	int join[PROTO_FDS_MAX];         /* `tasks` files for every exec */
	int join_sandbox[PROTO_FDS_MAX]; /* `tasks` files for an exec without its own
					    cgroup */
	int dir[PROTO_ROLE_MAX];         /* directories by role; -1: none */
	uint64_t caps;                   /* what we have */
	unsigned n_execs; /* slots ever used: the table is searched up to here */
	struct exec execs[PROTO_EXECS_MAX];
};

extern struct init init;

/* The data of an epoll event: the kind of descriptor, and its exec. */
enum watch {
	WATCH_CONN, /* and which */
	WATCH_LISTEN,
	WATCH_SIGNAL,
	WATCH_TIMER,
	WATCH_START, /* and the exec's slot */
	WATCH_OUT,   /* and the exec's slot, and which of its streams */
};
extern char inbox[PROTO_MESSAGE_MAX];

/* privileges.c */
void become_init(void);
/* Keep only the capabilities in @mask; -1: all. */
void take_caps(uint64_t mask);

/* conn.c */
void conn_start(void);
void conn_accept(void);
void conn_receive(int c);
/*
 * Watch the listener again if it is time; returns when that will be, 0 if it is watched.
 */
uint64_t conn_hear_again(uint64_t t);
/* @c may be -1: the connection has ended. */
void conn_send(int c, const void *data, size_t size, const int *fds, size_t n_fds);
/* Send once: 0 or more, or -errno; and whether another attempt is useful. */
long conn_try(int fd, const void *data, size_t size, const int *fds, size_t n_fds);
bool conn_may_try_again(long r);

/* outbox.c */
/* Append to what already waits; -errno: there is no room, or no descriptor. */
long outbox_put(struct conn *conn, const void *data, size_t size, const int *fds,
		size_t n_fds);
/* Send what waits; true: nothing waits any more. */
bool outbox_flush(struct conn *conn);
void outbox_drop(struct conn *conn);

/* The message of a failure reply; NULL: none. */
extern const char *reply_why;
void conn_reply(int c, uint32_t seq, long status, enum proto_stage stage, int fd);
/* The same, with a value and no descriptor. */
void reply_value(int c, uint32_t seq, long status, uint32_t value);
/* The same, with the streams of @ex that its users need. */
void reply_with(int c, uint32_t seq, const struct exec *ex, bool command);
/* Send @msg to all connections that should get it. */
void conn_report(const struct exec *ex, const struct proto_exited *msg);

/* request.c */
/*
 * Whether the message has the right version and the right size for its type; if not, an
 * error is sent.
 */
bool request_is_sound(int c, size_t size);
void request_keep(int c, const struct proto_keep *msg);
void request_hello(int c, const struct proto_hello *msg);

/* spawn.c */
void spawn_exec(int c, const struct proto_spawn *msg, size_t size, int *fds,
		size_t n_fds);

/* exec.c */
struct exec *agent_exec_new(uint32_t id);
struct exec *exec_find(uint32_t id);
void agent_exec_release(struct exec *ex);
void exec_reap(void);
void exec_deadlines(void);
/*
 * An event of the loop that init and shim handle alike: @what and its slot, by
 * watch_add().
 */
void exec_event(unsigned what, unsigned slot, unsigned which);

/* exec_procs.c */
long tree_signal(struct exec *ex, const struct proto_signal *msg);
/* Whether a process of the sandbox, other than init, catches @sig. */
bool tree_any_catches(int sig);
void tree_list(int c, const struct proto_list *msg, const int *fds, size_t n_fds);

/* exec_attach.c */
void exec_attach_request(int c, const struct proto_attach *msg, int *fds, size_t n_fds);
void attach_ack(int c, const struct proto_ack *msg);
void attach_close_input(int c, const struct proto_close_input *msg);
/*
 * Handle requests that init and shim answer alike: those about the connection and about
 * an exec's streams. False: it is another request.
 */
bool attach_dispatch(int c, const void *msg, int *fds, size_t n_fds);

/* exec_cgroup.c */
/* Create one in advance. */
void group_ahead(void);
bool group_kill(struct exec *ex);
/* A file that lists its processes, one on each line, or -errno. */
long group_list(const struct exec *ex);

/* journal_write.c */
long drain_start(struct exec *ex, uint64_t limit);
/* Stream @which of @ex comes from @fd, which is the exec's from here on. */
long drain_watch(struct exec *ex, unsigned which, int fd);
void journal_drain(struct exec *ex, unsigned which);
/* A client acknowledged output, or disconnected: continue if that was waited for. */
void drain_resume(struct exec *ex);
/* There may be room on the disk again: continue if that was waited for. */
void drain_retry(struct exec *ex, uint64_t t);
void drain_forget(struct exec *ex);
/* Write how it ended into the journal. */
void drain_result(struct exec *ex, enum journal_state state,
		  const struct journal_result *res);
void drain_end(struct exec *ex);

/*
 * The cgroups of file workers: descriptors to join them, which the caller closes; 0 or
 * -errno.
 */
long group_files(int *own, int *n_own);
/* How many file workers the OOM killer has killed. */
uint64_t group_files_kills(void);

/* file_worker.c */
void file_worker_start(int c, const struct proto_worker *msg);
/* In a worker: create an inotify instance, and a process that passes on its events. */
void file_worker_notify(int c, const struct proto_notify *msg);
/* Process @pid has ended; whether it was a worker. */
bool file_worker_ended(int pid);

/* file_write.c */
void agent_files_write(int c, const struct proto_write *msg, size_t size, const int *fds,
		       size_t n_fds);
/* The error (-errno) of the last failed WRITE of @stream, or 0. */
long files_write_failed(uint32_t stream);

/* open_connect.c */
/* A socket that is connected to a port on loopback, or about to be; -errno. */
long reach_dial(uint16_t port, bool ipv6);
/* Handle a request about files or a port; any other is refused as unknown. */
void reach_request(int c, size_t size, const int *fds, size_t n_fds);

/* files.c */
/* Have only the user's rights, until as_self(); -EINVAL. */
long as_user(const struct proto_who *who);
void as_self(const struct proto_who *who);
/* openat2(2) within the root, or below the directory @at; @at AT_FDCWD: none. */
long files_resolve(int at, const char *path, int flags, uint32_t mode);
/* The directory that holds a name; `fd` is ours to close if it is not `at`. */
struct parent_dir {
	int fd;
	const char *name; /* in the path */
};

/*
 * The directory in which @path is, or will be created: not "/", not in /proc. Call
 * parent_dir_done() even after a failure.
 */
long parent_dir_find(int at, const char *path, struct parent_dir *ret);
void parent_dir_done(const struct parent_dir *p, int at);
/*
 * Whether @fd is in /proc: there, /proc/self would be init, and a client would get access
 * to it.
 */
bool on_proc(int fd);
void agent_files_scan(int c, const struct proto_scan *msg, const int *fds, size_t n_fds);
void agent_files_change(int c, const struct proto_change *msg, size_t size,
			const int *fds, size_t n_fds);
void files_watch(int c, const struct proto_watch *msg, const int *fds, size_t n_fds);

#include "agent/core/hooks.h"

#endif /* AGENT_CORE_AGENT_H */
