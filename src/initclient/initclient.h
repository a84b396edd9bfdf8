/* SPDX-License-Identifier: Apache-2.0 */
/*
 * initclient.h - the client of a sandbox's init or shim
 *
 * A sandbox of the native backend has an init inside; a sandbox of another backend has a
 * shim on the host. Both use proto/init_proto.h and write the journals of
 * proto/journal.h, so the same client works with both ("init" below means either):
 *
 *	request.c		requests to init and its replies, non-blocking
 *	client.c		the blocking client, on top of request.c
 *	exec.c			execs, on top of client.c
 *	files_ports.c		files and ports, on top of client.c
 *	journal_read.c		reads an exec's journal
 *	user.c			resolves "name", "uid", "uid:gid" to ids by its passwd
 *	sandbox_socket.c	the socket and the state file of a durable sandbox
 *	alive.c			detects whether its init is alive
 *	state_file.c		the contents of the state file
 *	sandbox_desc.c		the same data for a process without privileges
 *
 * A backend's sandbox begins with a struct initclient_sandbox, so that the backend's
 * table can use the functions here that take a struct backend_sandbox directly.
 */
#ifndef INITCLIENT_INITCLIENT_H
#define INITCLIENT_INITCLIENT_H

#include <sys/types.h>

#include "base/buf.h"
#include "initclient/handle.h"
#include "initclient/request.h"
#include "proto/init_proto.h"
#include "proto/journal_read.h"

struct initclient_exec;

struct initclient_sandbox {
	struct backend_sandbox base;
	bool ready; /* init has sent READY */
	/*
	 * This process created the sandbox, and has passed no connection to another
	 * process.
	 */
	bool fresh;
	pid_t pid; /* init's pid; use it only for /proc/<pid> while pidfd is open */
	int pidfd;
	/* pid and start time (in ticks) of init, from the state file; 0: unknown. */
	uint32_t init_pid;
	uint64_t init_start;
	int control; /* -1: not connected yet */
	uint32_t seq;
	uint32_t next_exec;
	struct initclient_exec *execs;
	struct initclient_user user;
	uint64_t nofile;
	uint32_t n_ids; /* ids below this exist inside the sandbox */
	bool groups;    /* setgroups(2) is allowed inside */
	bool framed;    /* an exec can have only three descriptors */
	bool direct; /* with framed: an opened file is the sandbox's file, not a copy */
	char *workdir;
	char **env;
	char *hostname;
	/* "dir:PATH", or the id of an image of the store; NULL: "host", or unknown */
	char *image;
	/* For an adopted sandbox: the text that `enforced` points into. */
	char *state_text;
	bool paused;
	bool left_paused;   /* by a copy of its files; see shimmed_note_left_paused() */
	bool may_take_long; /* the client talks to a shim, which may be busy for minutes
			     */
	bool saved;         /* the sandbox is checkpointed (PROTO_SAVE) */
	uint64_t oom_kills; /* OOM kills in cgroups of ended execs */
	/* Return whether these ids exist inside. NULL: ids below n_ids exist. */
	bool (*has_ids)(const struct initclient_sandbox *sandbox, uint32_t uid,
			uint32_t gid);
};

struct initclient_exec {
	struct backend_exec base;
	struct journal_hint hint;
	struct initclient_sandbox *sandbox; /* NULL once the sandbox is gone */
	struct initclient_exec *next;
	uint32_t id;
	uint64_t deadline; /* time by which init must report the end of the exec; 0: none
			    */
	bool done, accounts_sandbox;
	bool kept; /* the sandbox is durable, so the result may be only in the journal */
	struct proto_exited result;
	int journal;
	/* For wait_fd, created on demand: an epoll of the connection and an eventfd. */
	int poll, ready;
};

/*
 * initclient.c: free the contents and detach the execs, but do not free the sandbox
 * itself.
 */
void initclient_done(struct initclient_sandbox *sandbox);

/* client.c */
int client_wait_ready(struct initclient_sandbox *sandbox, struct warren_error *err);
/*
 * Send one request and wait for its REPLY or WELCOME. The caller owns its descriptors and
 * calls init_reply_done().
 */
int client_request(struct initclient_sandbox *sandbox, const struct init_request *q,
		   struct init_reply *ret, struct warren_error *err);
/* Like client_request(), for a request that is one struct; @fd may be -1. */
int client_ask(struct initclient_sandbox *sandbox, const void *msg, size_t size, int fd,
	       struct init_reply *ret, struct warren_error *err);
/* Like client_ask(), with a timeout of @ms. */
int client_ask_within(struct initclient_sandbox *sandbox, const void *msg, size_t size,
		      int fd, unsigned ms, struct init_reply *ret,
		      struct warren_error *err);
/*
 * Process a message from init, and wait for one at most @timeout_ms. Return 1 if there
 * was one, 0 if not, or -errno.
 */
int client_pump(struct initclient_sandbox *sandbox, int64_t timeout_ms,
		struct warren_error *err);

/* exec.c: entries of a backend's table */
int initclient_exec(void *state, struct backend_sandbox *base,
		    const struct warren_exec_spec *spec, struct backend_exec **ret_exec,
		    struct warren_error *err);
int initclient_exec_wait(struct backend_exec *base, int64_t timeout_ms,
			 struct warren_result *ret, struct warren_error *err);
int initclient_exec_signal(struct backend_exec *base, int sig, struct warren_error *err);
int initclient_exec_signal_to(struct backend_exec *base, int sig, enum warren_whom whom,
			      struct warren_error *err);
int initclient_exec_attach(void *state, struct backend_sandbox *base, uint32_t number,
			   int journal_fd, struct backend_exec **ret_exec,
			   struct warren_error *err);
uint32_t initclient_exec_number(const struct backend_exec *ex);
int initclient_exec_close_input(struct backend_exec *base, struct warren_error *err);
int initclient_exec_ack(struct backend_exec *base, uint64_t cursor,
			struct warren_error *err);
void initclient_exec_free(struct backend_exec *base);
int initclient_exec_wait_fd(struct backend_exec *base);
int initclient_exec_resize(struct backend_exec *base, uint16_t rows, uint16_t cols,
			   struct warren_error *err);
/*
 * Find the user of an exec or a file: @text, or the sandbox's default user if @text is
 * NULL.
 */
int initclient_user_find(struct initclient_sandbox *sandbox, const char *text,
			 struct initclient_user *ret, struct warren_error *err);
void initclient_base(const struct initclient_sandbox *sandbox,
		     struct init_request_base *ret);

/* files_ports.c: entries of a backend's table */
int initclient_file_open(void *state, struct backend_sandbox *base, const char *path,
			 int flags, mode_t mode, const char *user, int *ret_fd,
			 struct warren_error *err);
/*
 * Ask for the attributes of @path: a shim writes pending data of the file before it
 * replies.
 */
int initclient_file_settle(void *state, struct backend_sandbox *sandbox, const char *path,
			   struct warren_error *err);
int initclient_connect(void *state, struct backend_sandbox *base, uint16_t port,
		       int *ret_fd, struct warren_error *err);
/* Get a new socket of the sandbox's network, which is not connected. */
int initclient_socket(struct initclient_sandbox *sandbox, int *ret_fd,
		      struct warren_error *err);

int initclient_exec_output(struct backend_exec *base, uint64_t cursor, void *buf,
			   size_t size, struct warren_output *ret,
			   struct warren_error *err);

#endif /* INITCLIENT_INITCLIENT_H */
