/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_internal.h - servers, connections and requests, as the files of the server see
 * them
 *
 *	http_server.c   listening, accepting, deadlines
 *	http_conn.c     a connection: heads and bodies in, request after request
 *	http_answer.c   answers out
 *	http_text.c     words: headers, status lines, decoding
 *
 * One function writes the state of each thing: arm() the deadline of a
 * connection, work() what it does with bytes, http_conn_end() its end.
 */
#ifndef NET_HTTP_INTERNAL_H
#define NET_HTTP_INTERNAL_H

#include "net/http.h"
#include "net/http_body.h"
#include "net/http_head.h"
#include "net/stream.h"

/* Why a connection waits, and for how long at most. A queue each, in order of expiry. */
enum deadline {
	DEADLINE_NONE,
	DEADLINE_HEAD,   /* counts from the first byte: trickling does not help */
	DEADLINE_IDLE,   /* between requests, of a stranger */
	DEADLINE_KEPT,   /* the same, of a client that is known */
	DEADLINE_BODY,   /* counts from the last byte */
	DEADLINE_WRITE,  /* counts from the last byte taken */
	DEADLINE_HALF,   /* the client has ended its half */
	DEADLINE_LINGER, /* so that it can read our last words */
	DEADLINE_MAX
};

struct link {
	struct link *next, *prev;
};

struct http_conn {
	struct stream stream;
	struct http_server *server;
	struct request *req;   /* the one under way */
	struct http_body body; /* what is left of its body */
	struct loop_task task; /* goes on after an answer that came later */
	struct link all;       /* of the server's connections */
	struct link queue;     /* of those with the same deadline */
	uint64_t due;
	uint64_t progress; /* bytes sent and received when the deadline was set */
	uint64_t taken;    /* bytes and 1, when http_server_cut() looked; 0: it did not */
	size_t scanned;    /* of a head that is not whole yet */
	struct http_peer peer;
	uint8_t deadline; /* enum deadline */
	bool working;     /* in work(): what ends there is seen there */
	bool close_after; /* this answer is the last */
	bool lingering;   /* only for the client to read it */
	bool used;        /* there has been a request */
	bool partial;     /* some of a head is there */
	bool aborted;     /* to be ended, from the loop */
	bool known;       /* its client, to the handlers, or by the unix socket */
	bool refused;     /* there was no room for it; it stays to read that */
};

/* What a server holds for requests: http_account.c. */
enum http_account {
	HTTP_BODIES, /* that are being collected */
	HTTP_KEPT,   /* for answers */
	HTTP_ACCOUNTS,
};

struct http_accounts {
	size_t limit[HTTP_ACCOUNTS], used[HTTP_ACCOUNTS];
	struct http_owner *owners; /* of requests that are open */
};

enum sink {
	SINK_UNDECIDED, /* the handler has not said yet: nothing is read */
	SINK_COLLECT,
	SINK_STREAM,
};

struct request {
	struct http_request pub; /* first: the handler's pointer is this one */
	struct http_conn *conn;  /* NULL once it is closed */
	void (*fn)(struct http_request *req, const char *data, size_t n);
	struct buf collected;
	struct http_owner *owner;   /* NULL: none */
	size_t held[HTTP_ACCOUNTS]; /* of the body, and for the answer */
	uint64_t left;              /* of an answer of known length */
	int status;                 /* of the answer; 0: it has not begun */
	char id[ID_LEN + 1];
	uint8_t sink; /* enum sink */
	bool expects; /* a "100 Continue" before its body */
	bool paused;
	bool keep_alive;   /* as far as the client is concerned */
	bool begun, ended; /* the answer */
	bool bodiless;     /* the answer to HEAD, a 204 or 304 */
	bool chunked;
	bool sized; /* @left counts */
	bool upgraded;
	bool told_end; /* of the body */
	bool oversize; /* the body is longer than wanted */
	bool crowded;  /* there is no room for it beside those of others */
	bool waiting;  /* for drained() */
	bool head_method;
	struct http_header headers[];
};

/* http_account.c */
int http_account_own(struct http_accounts *all, struct request *r,
		     const char *name) MUST_CHECK;
/* Room for a body of @r that has @len bytes by now; false: there is none. */
bool http_account_body(struct http_accounts *all, struct request *r, size_t len);
bool http_account_keep(struct http_accounts *all, struct request *r, size_t n);
/* It is no longer there. */
void http_account_give(struct http_accounts *all, enum http_account which,
		       struct request *r);
/* The request is over. */
void http_account_leave(struct http_accounts *all, struct request *r);

/* http_server.c */
struct http_accounts *http_server_accounts(struct http_server *s);
/* Count it anew: its client has become known, or a stranger. */
void http_server_known(struct http_conn *c, bool known);
void http_server_set_deadline(struct http_conn *c, enum deadline d);
void http_server_gone(struct http_conn *c);
struct net_loop *http_server_loop(const struct http_server *s);
const struct http_options *http_server_options(const struct http_server *s);
struct http_head *
http_server_head(struct http_server *s);             /* to parse into; one at a time */
const char *http_server_date(struct http_server *s); /* "Date: ...\r\n" */
void http_server_id(struct http_server *s, char id[ID_LEN + 1]); /* of a request */
struct buf *
http_server_scratch(struct http_server *s); /* empty; for one head at a time */
bool http_server_is_draining(const struct http_server *s);

/* http_conn.c */
int http_conn_open(struct http_server *server, int fd, struct tls *tls,
		   struct http_conn **ret);
/* The connection has ended for this reason; its request is notified. */
void http_conn_end(struct http_conn *c, int why);
void http_conn_timeout(struct http_conn *c, enum deadline which);
/* Something changed outside of work(): look again, from the loop. */
void http_conn_kick(struct http_conn *c);
/* There is no room for it: a 503, and the end. */
void http_conn_overfull(struct http_conn *c);
/* The request has ended; it is notified. */
void http_conn_close_request(struct http_conn *c, int why);
/* End our half, and read on until the client has seen it. */
void http_conn_linger(struct http_conn *c);
/* Is the rest of the body so small that reading it beats a new connection? */
bool http_conn_body_is_cheap(const struct http_conn *c);

/* http_answer.c */
/* The server's own answer, then the end; to the request under way, if there is one. */
void http_conn_refuse(struct http_conn *c, int status, const char *why, int error);

/* http_text.c */
const char *http_status_text(int status);
const char *http_refusal_code(int status);

static inline struct request *request_of(struct http_request *req)
{
	return (struct request *)req;
}

static inline void link_init(struct link *l)
{
	l->next = l->prev = l;
}

static inline void link_add(struct link *head, struct link *l)
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

static inline void link_remove(struct link *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	link_init(l);
}

#endif /* NET_HTTP_INTERNAL_H */
