/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent.h - the source files of an agent (init, guest agent, shim), and the types they
 * share
 *
 * In src/agent/init, for pid 1 of a native sandbox:
 *
 *	main.c		the loop: one epoll, one signalfd, one timerfd; the dispatch
 *	exec_child.c	starts the process of a SPAWN, from its plan up to execve(2)
 *	exec_procs.c	lists and signals the processes of an exec
 *	exec_cgroup.c	the cgroup of an exec, v1 and v2
 *	file_worker.c	WORKER: a child for file operations, charged to the sandbox
 *
 * In src/agent/core, shared by the programs that hooks.h lists:
 *
 *	conn.c		connections: accept, receive, answer, report
 *	outbox.c	messages that did not fit into a connection yet
 *	request.c	the first check of a request
 *	spawn.c		SPAWN: checks the message and prepares the streams
 *	exec.c		the table of execs: reaping, deadlines, accounting
 *	exec_attach.c	requests about a running exec: ATTACH, ACK, CLOSE_INPUT
 *	journal_write.c	writes output into a journal
 *	open_connect.c	OPEN and CONNECT, and the dispatch of requests about files
 *	files.c		SCAN, CHANGE and WATCH; paths, and the privileges of a user
 *	file_write.c	WRITE
 *	attributes.c	extended attributes of files
 *	pseudo_file.c	copies of files in /proc and similar filesystems
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
 * become. So root inside cannot change its limits, priority or processors. It is not
 * dumpable and its program cannot be read, so no process inside can trace it or open its
 * /proc files. The kernel protects pid 1 of a namespace from signals sent within that
 * namespace. init never waits for a process inside, and trusts only the control
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

#define STREAMS 3 /* streams of a journal; stream n has index n - 1 */

/* One exec, from SPAWN until its first process is reaped and its output is drained. */
struct exec {
	uint32_t id;
	int pid; /* 0: the slot is free, or the process has been reaped */
	bool used;
	bool accounts_sandbox; /* report the usage of the whole sandbox as its own */
	int group;             /* index of its own cgroups; -1: none */
	bool limited;          /* the request set limits on its cgroups */
	uint64_t old_kills;    /* OOM kills in its cgroups by earlier execs */
	bool timed_out;
	bool killed; /* the exec's cgroup accepts no new processes */
	bool failed; /* the exec did not start, and the client knows: only reap it */
	int start;   /* a pipe that closes on execve(2); -1: already closed */
	uint64_t start_by; /* ns, monotonic: deadline for that execve(2) */
	uint32_t seq;      /* sequence number of its SPAWN, for the reply */
	int asker;         /* the connection that sent SPAWN; -1: already ended */
	uint64_t started;  /* ns, monotonic */
	uint64_t deadline; /* ns, monotonic; 0: none */
	uint64_t
		kill_at; /* ns, monotonic: when to try again to kill the exec; 0: never */
	uint64_t kill_wait; /* ns between two attempts to kill the exec; 0: none yet */
	int input; /* write end of its stdin, or its terminal; -1: not open here */
	bool tty;  /* `input` is the terminal */
	int wakeup, command; /* PROTO_CONTROL_*; -1: none */
	bool gone; /* shim only: the exec ended with its sandbox, without a result */
	/* The newest pid when the last record of stream 3 was written. */
	int mark;
	uint32_t hears; /* bit mask of the connections to send EXITED to */

	/* The journal of the exec: */
	int journal;                       /* -1: none */
	int notify[PROTO_CONNECTIONS_MAX]; /* one eventfd per connection; -1: none */
	uint32_t holds; /* bit mask of the connections that allow no gaps */
	/* Cursors up to which those connections have acknowledged. */
	uint64_t acked[PROTO_CONNECTIONS_MAX];
	bool held; /* the journal or the disk is full: reading has stopped */
	/* Stderr is not read here yet: the shim reads its first line. */
	bool head_held;
	uint64_t retry_at; /* ns, monotonic: when to try a full disk again; 0: never */
	char *kept;        /* bytes of a terminal that wait for space; NULL: none */
	uint32_t n_kept;
	int pipe[STREAMS]; /* read ends: stdout or the terminal, stderr, results */
	uint64_t capacity, head, tail, lost, skipped, written;
	uint64_t slot; /* last index slot written, plus one */
	enum journal_state state;
};

/* A connection of a client. */
struct conn {
	int fd;    /* -1: free */
	bool all;  /* this connection gets EXITED for every exec */
	char *out; /* messages that wait to be sent; NULL: none */
	uint32_t out_from, out_to;
};

struct init {
	/* At the start, the first connection is that of the creator. */
	struct conn conns[PROTO_CONNECTIONS_MAX];
	int listener; /* -1: not durable */
	/* Ignore the listener until this time (ns, monotonic); 0: do not ignore it. */
	uint64_t deaf_until;
	bool kept;      /* after KEEP: the creator may disconnect */
	bool gates;     /* init only: see struct proto_spawn */
	bool workers;   /* init only: see struct proto_worker */
	bool files;     /* init only: see PROTO_SPAWN_FILE */
	bool is_worker; /* a file worker or the guest agent, which only serve files */
	bool saved;     /* shim only: checkpointed, or about to be (checkpoint.c) */
	uint32_t last_exec;
	uint64_t oom_kills;
	int epoll;
	int signals;
	int timer;
	int null;
	int n_join, n_join_sandbox;
	int join[PROTO_FDS_MAX];         /* `tasks` files for every exec */
	int join_sandbox[PROTO_FDS_MAX]; /* `tasks` files for execs without a cgroup */
	int dir[PROTO_ROLE_MAX];         /* directories by role; -1: none */
	uint64_t caps;                   /* the capabilities that this process has */
	unsigned n_execs; /* number of slots ever used: searches stop here */
	struct exec execs[PROTO_EXECS_MAX];
};

extern struct init init;

/* The data of an epoll event: the kind of descriptor, and its exec. */
enum watch {
	WATCH_CONN, /* the slot is the number of the connection */
	WATCH_LISTEN,
	WATCH_SIGNAL,
	WATCH_TIMER,
	WATCH_START, /* the slot is that of the exec */
	WATCH_OUT,   /* the slot is that of the exec, and `which` is its stream */
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
 * Watch the listener again once `deaf_until` has passed; return that time, or 0 if the
 * listener is watched.
 */
uint64_t conn_hear_again(uint64_t t);
/* @c may be -1: the connection has ended. */
void conn_send(int c, const void *data, size_t size, const int *fds, size_t n_fds);
/*
 * conn_try() makes one attempt to send and returns 0 or more, or -errno;
 * conn_may_try_again() says whether another attempt can succeed.
 */
long conn_try(int fd, const void *data, size_t size, const int *fds, size_t n_fds);
bool conn_may_try_again(long r);

/* outbox.c */
/* Append a message to the outbox; -errno if there is no space or no descriptor. */
long outbox_put(struct conn *conn, const void *data, size_t size, const int *fds,
		size_t n_fds);
/* Send waiting messages; return true if the outbox is empty afterwards. */
bool outbox_flush(struct conn *conn);
void outbox_drop(struct conn *conn);

/* The message of a failure reply; NULL: none. */
extern const char *reply_why;
void conn_reply(int c, uint32_t seq, long status, enum proto_stage stage, int fd);
/* Like conn_reply(), with a value and no descriptor. */
void reply_value(int c, uint32_t seq, long status, uint32_t value);
/* Like conn_reply(), with the streams of @ex that the client needs. */
void reply_with(int c, uint32_t seq, const struct exec *ex, bool command);
/* Send @msg to all connections that should get it. */
void conn_report(const struct exec *ex, const struct proto_exited *msg);

/* request.c */
/*
 * Check that the message has the right version and the right size for its type; if not,
 * send an error.
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
 * Handle an event that init and shim handle in the same way. @what, @slot and @which are
 * those of watch_add().
 */
void exec_event(unsigned what, unsigned slot, unsigned which);

/* exec_procs.c */
long tree_signal(struct exec *ex, const struct proto_signal *msg);
/* Return whether a process of the sandbox, other than init, catches @sig. */
bool tree_any_catches(int sig);
void tree_list(int c, const struct proto_list *msg, const int *fds, size_t n_fds);

/* exec_attach.c */
void exec_attach_request(int c, const struct proto_attach *msg, int *fds, size_t n_fds);
void attach_ack(int c, const struct proto_ack *msg);
void attach_close_input(int c, const struct proto_close_input *msg);
/*
 * Handle requests that init and shim answer in the same way: about the connection and
 * about an exec's streams. Return false for any other request.
 */
bool attach_dispatch(int c, const void *msg, int *fds, size_t n_fds);

/* exec_cgroup.c */
/* Create a cgroup for a later exec. */
void group_ahead(void);
bool group_kill(struct exec *ex);
/* Open a file that lists the exec's processes, one per line; return it or -errno. */
long group_list(const struct exec *ex);

/* journal_write.c */
long drain_start(struct exec *ex, uint64_t limit);
/* Read stream @which of @ex from @fd; the exec then owns @fd. */
long drain_watch(struct exec *ex, unsigned which, int fd);
void journal_drain(struct exec *ex, unsigned which);
/* A client acknowledged output or disconnected: continue if draining waited for that. */
void drain_resume(struct exec *ex);
/* Try again to write to a full disk, if it is time. */
void drain_retry(struct exec *ex, uint64_t t);
void drain_forget(struct exec *ex);
/* Write the exec's result into the journal. */
void drain_result(struct exec *ex, enum journal_state state,
		  const struct journal_result *res);
void drain_end(struct exec *ex);

/*
 * Open descriptors for joining the cgroups of file workers; the caller closes them.
 * Return 0 or -errno.
 */
long group_files(int *own, int *n_own);
/* How many file workers the OOM killer has killed. */
uint64_t group_files_kills(void);

/* file_worker.c */
void file_worker_start(int c, const struct proto_worker *msg);
/* In a worker: create an inotify instance and a process that forwards its events. */
void file_worker_notify(int c, const struct proto_notify *msg);
/* Process @pid has ended; return whether it was a worker. */
bool file_worker_ended(int pid);

/* file_write.c */
void agent_files_write(int c, const struct proto_write *msg, size_t size, const int *fds,
		       size_t n_fds);
/* The error (-errno) with which the last WRITE of @stream failed, or 0. */
long files_write_failed(uint32_t stream);

/* open_connect.c */
/*
 * Return a socket that is connected or connecting to @port on loopback, or -errno. Port
 * 0: it is not connected.
 */
long reach_dial(uint16_t port, bool ipv6);
/* Handle a request about files or a port; refuse any other as unknown. */
void reach_request(int c, size_t size, const int *fds, size_t n_fds);

/* attributes.c */
/* Return whether @name in @dir has attributes that begin with "user.". */
bool attributes_any(int dir, const char *name, uint32_t mode);
/* Append an entry for each such attribute of the file, which was opened with O_PATH. */
void attributes_append(int fd);
long attributes_set(const struct proto_change *msg, const int *fds, size_t n_fds);

/* pseudo_file.c */
/*
 * Return @fd, unless its file may not be opened, or has no size because the kernel makes
 * its contents up; then close it, and return a copy or -errno. @flags: as it was opened.
 */
long pseudo_file_replace(int fd, int flags);

/* files.c */
/*
 * Act with the user's privileges until as_self() is called. -EINVAL: @who is not valid.
 */
long as_user(const struct proto_who *who);
void as_self(const struct proto_who *who);
/* Does a filter refuse set-id bits (os/seccomp_set_id.c)? It cannot see openat2(2)'s. */
bool files_forbid_set_id(void);
/*
 * Open @path with openat2(2): within the root if @at is AT_FDCWD, otherwise below the
 * directory @at.
 */
long files_resolve(int at, const char *path, int flags, uint32_t mode);
/* The parent directory of a path. parent_dir_done() closes `fd` unless it is `at`. */
struct parent_dir {
	int fd;
	const char *name; /* points into the path */
};

/*
 * Find the directory in which @path is or will be created; refuse "/" and anything in
 * /proc. Call parent_dir_done() even after a failure.
 */
long parent_dir_find(int at, const char *path, struct parent_dir *ret);
void parent_dir_done(const struct parent_dir *p, int at);
/* Return whether @fd is in /proc, where a client could get access to init as
 * /proc/self. */
bool on_proc(int fd);
void agent_files_scan(int c, const struct proto_scan *msg, const int *fds, size_t n_fds);
/* Append an entry to the reply of a scan. -ENOSPC: no room. */
long files_append_entry(const struct proto_entry *is, const char *name, const char *text);
/*
 * Return a path of the open file @fd, for calls that take no descriptor; the path leads
 * to the file itself. It is valid until the next call.
 */
const char *files_name_of(int fd);
void agent_files_change(int c, const struct proto_change *msg, size_t size,
			const int *fds, size_t n_fds);
void files_watch(int c, const struct proto_watch *msg, const int *fds, size_t n_fds);

#include "agent/core/hooks.h"

#endif /* AGENT_CORE_AGENT_H */
