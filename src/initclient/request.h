/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.h - non-blocking requests to an init, and its replies
 *
 * Users are the blocking client (client.c), and the event loops of processes that have
 * only a connection to an init and a struct init_request_base of its sandbox. The
 * protocol is in proto/init_proto.h. No function here blocks unless the caller requests
 * it.
 *
 *	init_request_spawn(&q, &base, &base.user, &spec, 7, &streams, err);
 *	init_request_send(&q, connection, ++seq, err);
 *	...when the connection is readable:
 *	request_receive(connection, &a, MSG_DONTWAIT, err);
 *	if (a.m.h.type == PROTO_REPLY && a.m.h.seq == seq) ...
 *	init_reply_done(&a);
 *
 * All other requests are plain structs of init_proto.h; use init_request_put().
 */
#ifndef INITCLIENT_REQUEST_H
#define INITCLIENT_REQUEST_H

#include "base/buf.h"
#include "initclient/user.h"

#define REQUEST_FDS_MAX 8

/* Properties that all execs of a sandbox share. */
struct init_request_base {
	const char *const *env; /* NULL-terminated; NULL: none */
	/* Variables that come before those of `env`; likewise. */
	const char *const *added_env;
	const char *account; /* USER and LOGNAME, unless a variable says otherwise; NULL:
				none */
	const char *hostname;
	const char *workdir;
	struct initclient_user user;
	uint64_t nofile;
	uint32_t n_ids; /* ids below this exist inside */
	bool groups;    /* setgroups(2) is allowed inside */
	bool framed;    /* an exec can have only three descriptors */
	bool direct; /* with framed: an opened file is the sandbox's file, not a copy */
};

/* A message to send: bytes and descriptors. */
struct init_request {
	struct buf msg;
	int fds[REQUEST_FDS_MAX];
	size_t n_fds;
	int theirs[REQUEST_FDS_MAX]; /* the descriptors that init_request_done() closes */
	size_t n_theirs;
};

#define REQUEST_INIT                                                            \
	{                                                                       \
		.msg = BUF_INIT(sizeof(struct proto_spawn) + PROTO_STRINGS_MAX) \
	}

void init_request_done(struct init_request *q);
/* Set a message of @size bytes and a descriptor, which the caller keeps; -1: none. */
int init_request_put(struct init_request *q, const void *msg, size_t size, int fd,
		     struct warren_error *err);
/* Fill in version and @seq, for callers that send the message themselves. */
void init_request_number(const struct init_request *q, uint32_t seq);
/*
 * Fill in version and @seq, and send without blocking; -EAGAIN: the connection is full.
 */
int init_request_send(const struct init_request *q, int sock, uint32_t seq,
		      struct warren_error *err);

/* How the streams of an exec are connected. */
struct init_request_streams {
	int journal; /* the file for streams that go to the journal */
	int notify;  /* eventfd for the journal */
	/* See proto_spawn.gate; needs a journal; owned by the request; -1: none. */
	int gate;
	bool keep_input; /* init keeps the write end of stdin, a WARREN_STDIO_PIPE */
	bool hold;       /* output is not dropped before it is acknowledged */
	/* See PROTO_SPAWN_FILE. NULL: there is no file. */
	const char *file;
	const void *content;
	size_t content_size;
	int fd[3]; /* set on return: the caller's ends of new pipes; -1: none */
};

#define REQUEST_STREAMS_INIT                                                  \
	{                                                                     \
		.journal = -1, .notify = -1, .gate = -1, .fd = { -1, -1, -1 } \
	}

/*
 * Build a SPAWN. check.c must have checked the spec; @user is the resolved user of the
 * spec.
 */
int init_request_spawn(struct init_request *q, const struct init_request_base *base,
		       const struct initclient_user *user,
		       const struct warren_exec_spec *spec, uint32_t exec,
		       struct init_request_streams *streams, struct warren_error *err);
/* Check that @user has an id in the sandbox; -EINVAL if not. */
int init_request_check_user(const struct init_request_base *base, const char *text,
			    const struct initclient_user *user, struct warren_error *err);

/* A message from an init. Only its size and type have been checked. */
struct init_reply {
	union {
		struct proto_header h;
		struct proto_ready ready;
		struct {
			struct proto_reply reply;
			char why[PROTO_WHY_MAX]; /* "": no message */
		};
		struct proto_exited exited;
		struct proto_welcome welcome;
	} m;
	int fds[PROTO_GIVES_MAX];
	size_t n_fds;
	bool lost; /* success, but the descriptors could not be received: -EMFILE */
	const char *entries; /* the entries of ENTRIES, in the caller's buffer */
	size_t entries_size;
};

void init_reply_done(struct init_reply *a);
/*
 * Receive a message. 1: received; 0: none at present; -EPIPE: the connection has ended;
 * -EPROTO: not a valid message. @flags are those of recv(2), such as MSG_DONTWAIT.
 */
int init_request_receive(int sock, struct init_reply *a, int flags,
			 struct warren_error *err);
/*
 * Like init_request_receive(), for callers that may receive ENTRIES; @room has
 * PROTO_ANSWER_MAX bytes.
 */
#define PROTO_ANSWER_MAX (sizeof(struct proto_entries) + PROTO_ENTRIES_MAX)
int init_request_receive_into(int sock, struct init_reply *a, char *room, int flags,
			      struct warren_error *err);
/*
 * Take descriptor @bit (PROTO_GIVES_*) out of a REPLY to SPAWN or ATTACH; -1: the reply
 * has none of that kind.
 */
int init_reply_take(struct init_reply *a, uint32_t bit);
/* Take the only descriptor out of a REPLY to OPEN or CONNECT; -1: it has none. */
int init_reply_take_only(struct init_reply *a);

/* Get the status of a reply as a valid errno: 0, or positive. */
int reply_code(const struct proto_reply *reply);
/* Set @err to a message about a failed SPAWN; return -errno. */
int reply_explain(const struct init_reply *a, const struct warren_exec_spec *spec,
		  const char *workdir, struct warren_error *err);
/*
 * Set @err to a message about another failed request: the message in the reply, or @fmt
 * and the text of its errno.
 */
int reply_refuse(const struct init_reply *a, struct warren_error *err, const char *fmt,
		 ...) PRINTF_LIKE(3, 4);
void result_fill(const struct proto_exited *from, struct warren_result *to);

#endif /* INITCLIENT_REQUEST_H */
