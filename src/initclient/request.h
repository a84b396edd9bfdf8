/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.h - requests to an init and its answers, without waiting
 *
 * For processes with a connection to an init (proto/init_proto.h is its protocol): the
 * blocking client (client.c), and event loops of processes that know only a connection
 * and a struct init_request_base of a sandbox. No function here waits, unless the caller
 * asks for it.
 *
 *	init_request_spawn(&q, &base, &base.user, &spec, 7, &streams, err);
 *	init_request_send(&q, connection, ++seq, err);
 *	...when the connection is readable:
 *	request_receive(connection, &a, MSG_DONTWAIT, err);
 *	if (a.m.h.type == PROTO_REPLY && a.m.h.seq == seq) ...
 *	init_reply_done(&a);
 *
 * All other requests are a plain struct of init_proto.h: init_request_put().
 */
#ifndef INITCLIENT_REQUEST_H
#define INITCLIENT_REQUEST_H

#include "base/buf.h"
#include "initclient/user.h"

#define REQUEST_FDS_MAX 8

/* What holds for every exec of a sandbox. */
struct init_request_base {
	const char *const *env; /* NULL-terminated; NULL: none */
	const char *hostname;
	const char *workdir;
	struct initclient_user user;
	uint64_t nofile;
	uint32_t n_ids; /* ids below this exist inside */
	bool groups;    /* setgroups(2) is possible there */
	bool framed; /* an exec has no descriptors beyond three: shellproto/shellproto.h
		      */
	bool direct; /* and yet an open file is the sandbox's own, no copy */
};

/* A message on its way: bytes and descriptors. */
struct init_request {
	struct buf msg;
	int fds[REQUEST_FDS_MAX];
	size_t n_fds;
	int theirs[REQUEST_FDS_MAX]; /* of those, ours to close */
	size_t n_theirs;
};

#define REQUEST_INIT                                                            \
	{                                                                       \
		.msg = BUF_INIT(sizeof(struct proto_spawn) + PROTO_STRINGS_MAX) \
	}

void init_request_done(struct init_request *q);
/* A message of @size bytes and a descriptor, which stays the caller's; -1: none. */
int init_request_put(struct init_request *q, const void *msg, size_t size, int fd,
		     struct warren_error *err);
/* Version and @seq, for who sends it himself. */
void init_request_number(const struct init_request *q, uint32_t seq);
/* With version and @seq; -EAGAIN when the connection is full: it does not wait. */
int init_request_send(const struct init_request *q, int sock, uint32_t seq,
		      struct warren_error *err);

/* How the streams of an exec are connected. */
struct init_request_streams {
	int journal; /* the file for what the spec says goes to a journal */
	int notify;  /* an eventfd along with it */
	int gate;    /* as proto_spawn.gate, for exec with a journal; taken; -1: none */
	bool keep_input; /* init keeps a WARREN_STDIO_PIPE for stdin and hands it out */
	bool hold;       /* nothing is dropped before it is acknowledged */
	int fd[3];       /* on return: our ends of pipes that were made; -1: none */
};

#define REQUEST_STREAMS_INIT                                                  \
	{                                                                     \
		.journal = -1, .notify = -1, .gate = -1, .fd = { -1, -1, -1 } \
	}

/* A SPAWN. The spec is one that check.c has seen; @user is what its user is. */
int init_request_spawn(struct init_request *q, const struct init_request_base *base,
		       const struct initclient_user *user,
		       const struct warren_exec_spec *spec, uint32_t exec,
		       struct init_request_streams *streams, struct warren_error *err);
/* -EINVAL when @user has no id in the sandbox. */
int init_request_check_user(const struct init_request_base *base, const char *text,
			    const struct initclient_user *user, struct warren_error *err);

/* What an init said: checked in size and type, and in nothing else. */
struct init_reply {
	union {
		struct proto_header h;
		struct proto_ready ready;
		struct {
			struct proto_reply reply;
			char why[PROTO_WHY_MAX]; /* "": it was said in no words */
		};
		struct proto_exited exited;
		struct proto_welcome welcome;
	} m;
	int fds[PROTO_GIVES_MAX];
	size_t n_fds;
	bool lost; /* a reply that worked, but whose descriptors we have no room for:
		      -EMFILE */
	const char *entries; /* of ENTRIES, in the room that was given for them */
	size_t entries_size;
};

void init_reply_done(struct init_reply *a);
/*
 * 1; 0: there is nothing at present; -EPIPE: the end; -EPROTO: nothing that an
 * init says. @flags are recv(2)'s: with MSG_DONTWAIT it does not wait.
 */
int init_request_receive(int sock, struct init_reply *a, int flags,
			 struct warren_error *err);
/* The same for who may have asked for entries, with @room for PROTO_ANSWER_MAX bytes. */
#define PROTO_ANSWER_MAX (sizeof(struct proto_entries) + PROTO_ENTRIES_MAX)
int init_request_receive_into(int sock, struct init_reply *a, char *room, int flags,
			      struct warren_error *err);
/*
 * Descriptor @bit (PROTO_GIVES_*) of a REPLY to SPAWN or ATTACH; -1: it has none of that
 * kind.
 */
int init_reply_take(struct init_reply *a, uint32_t bit);
/* The one descriptor of a REPLY to OPEN or CONNECT; -1: it has none. */
int init_reply_take_only(struct init_reply *a);

/* The status of a reply as an errno that can be believed: 0, or positive. */
int reply_code(const struct proto_reply *reply);
/* What a failed SPAWN says, in words. */
int reply_explain(const struct init_reply *a, const struct warren_exec_spec *spec,
		  const char *workdir, struct warren_error *err);
/*
 * What another request that failed says: its own words, or those of its errno after @fmt.
 */
int reply_refuse(const struct init_reply *a, struct warren_error *err, const char *fmt,
		 ...) PRINTF_LIKE(3, 4);
void result_fill(const struct proto_exited *from, struct warren_result *to);

#endif /* INITCLIENT_REQUEST_H */
