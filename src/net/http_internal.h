/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_internal.h - servers, connections and requests, for the files of the server
 *
 *	http_server.c   listening, accepting, deadlines
 *	http_conn.c     a connection of HTTP/1: receives heads and bodies, request after
 *	                request
 *	http1_answer.c  sends responses over HTTP/1
 *	http2_*.c       the same for HTTP/2: http2_internal.h
 *	http_answer.c   the functions of http.h that send responses, for both protocols
 *	http_text.c     headers, status lines, decoding
 *
 * http_conn_arm() chooses the deadline of a connection, http_conn_work() processes its
 * bytes, and http_conn_end() ends it. struct http_protocol is what the two protocols
 * implement.
 */
#ifndef NET_HTTP_INTERNAL_H
#define NET_HTTP_INTERNAL_H

#include "net/http.h"
#include "net/http_body.h"
#include "net/http_head.h"
#include "net/stream.h"

/* Kinds of deadlines. Each has a queue of timers, in order of expiry. */
enum deadline {
	DEADLINE_NONE,
	DEADLINE_HEAD, /* counted from the first byte, so that a slow client cannot extend
			  it */
	DEADLINE_IDLE, /* time between requests of an unknown client */
	DEADLINE_KEPT, /* time between requests of a known client */
	DEADLINE_BODY, /* counted from the last byte received */
	DEADLINE_SLOW_BODY, /* the same, after http_allow_slow_body() */
	DEADLINE_WRITE,     /* counted from the last byte that the client read */
	DEADLINE_HALF,      /* the client has closed its half */
	DEADLINE_LINGER,    /* the client may read the last response */
	DEADLINE_MAX
};

struct link {
	struct link *next, *prev;
};

/* The deadline of a connection, or of one stream of HTTP/2. */
struct http_timer {
	struct link queue; /* link in the queue of its kind */
	uint64_t due;
	uint64_t progress; /* bytes sent and received when the deadline was set */
	/* The deadline has passed; it is no longer set. */
	void (*expired)(struct http_timer *timer, enum deadline which);
	uint8_t kind; /* enum deadline */
};

struct http_conn {
	struct stream stream;
	struct http_server *server;
	const struct http_protocol *protocol;
	struct http2 *h2;      /* state of HTTP/2; NULL: HTTP/1 */
	struct link requests;  /* all open requests */
	struct request *req;   /* HTTP/1: the current request */
	struct http_body body; /* HTTP/1: the rest of its body */
	struct loop_task task; /* continues after a response that was not immediate */
	struct link all;       /* link in the list of all connections */
	struct http_timer timer;
	uint64_t taken; /* bytes sent + 1 at the last http_server_cut(); 0: not called */
	size_t scanned; /* scanned bytes of an incomplete head */
	struct http_peer peer;
	/*
	 * Set while in http_conn_work(), which notices the end of the connection itself.
	 */
	bool working;
	bool chosen;      /* the protocol is known: bytes have arrived */
	bool close_after; /* this response is the last */
	bool lingering;   /* open only until the client has read the last response */
	bool used;        /* the connection has had a request */
	bool partial;     /* a part of a head has arrived */
	bool aborted;     /* the loop will end the connection */
	bool known;       /* the client showed a valid token, or uses the unix socket */
	/*
	 * There were too many connections; open only until the client has read the
	 * refusal.
	 */
	bool refused;
};

/* Memory that a server holds for requests: http_account.c. */
enum http_account {
	HTTP_BODIES, /* bodies that are being collected */
	HTTP_KEPT,   /* answers */
	HTTP_ACCOUNTS,
};

struct http_accounts {
	size_t limit[HTTP_ACCOUNTS], used[HTTP_ACCOUNTS];
	struct http_owner *owners; /* owners of open requests */
};

enum sink {
	SINK_UNDECIDED, /* the handler has not chosen yet; nothing is read */
	SINK_COLLECT,
	SINK_STREAM,
};

struct request {
	struct http_request pub; /* must be first: handlers have a pointer to it */
	struct http_conn *conn;  /* NULL once the request is closed */
	struct link link;        /* link in the list of the connection's requests */
	struct http2_stream *h2; /* its stream; NULL: HTTP/1 */
	void (*fn)(struct http_request *req, const char *data, size_t n);
	struct buf collected;
	struct http_owner *owner; /* NULL: none */
	/* Bytes held for the body, and for the response. */
	size_t held[HTTP_ACCOUNTS];
	uint64_t left; /* bytes left of a response with a known length */
	int status;    /* status of the response; 0: not begun */
	char id[ID_LEN + 1];
	uint8_t sink; /* enum sink */
	bool expects; /* the client waits for "100 Continue" before it sends the body */
	bool paused;
	bool slow_body;    /* http_allow_slow_body() */
	bool keep_alive;   /* the client wants to keep the connection */
	bool begun, ended; /* state of the response */
	bool bodiless;     /* no body: the response to HEAD, a 204 or 304 */
	bool chunked;
	bool sized; /* @left is valid */
	bool upgraded;
	bool told_end; /* the handler got the end of the body */
	bool oversize; /* the body exceeds the handler's maximum */
	bool crowded;  /* the memory for bodies is used up */
	bool waiting;  /* the handler waits for drained() */
	bool head_method;
	uint8_t n_added;
	struct http_header added[HTTP_ADDED_MAX]; /* http_add_header() */
	struct http_header headers[];
};

/*
 * How a protocol sends responses and controls connections. The functions of http.h have
 * checked the state of the request and the arguments before they call these.
 */
struct http_protocol {
	/*
	 * Send the head of the response with r->status, for a body of @length bytes (-1:
	 * unknown), and the first @n bytes of the body. @ours: the response is from
	 * Warren; nothing is added to that of a proxied server. -EMSGSIZE: the head is
	 * too large, and nothing was sent.
	 */
	int (*head)(struct request *r, const struct http_header *headers,
		    size_t n_headers, int64_t length, bool ours, const void *body,
		    size_t n);
	/* Send a part of the body, like http_write(). */
	int (*write)(struct request *r, const void *data, size_t n);
	/* Send a range of a file as the body; takes @fd. */
	int (*write_file)(struct request *r, int fd, uint64_t offset, uint64_t n);
	/* The body is complete. */
	int (*end)(struct request *r);
	/* Tell the client to send the body: "100 Continue". */
	void (*go_on)(struct request *r);
	/* Answer 101 and take over the connection; -EOPNOTSUPP: not with this protocol.
	 */
	int (*upgrade)(struct request *r, const struct http_header *headers,
		       size_t n_headers);
	/* End the response in a way that the client notices, from the loop. */
	void (*abort)(struct request *r);
	/* The state of the request changed: process it from the loop. */
	void (*kick)(struct request *r);
	/* Like http_cut(): closes the request with @error. */
	void (*cut)(struct request *r, int status, const char *why, int error);
	/* The server accepts no new requests. Ends the connection if it is idle. */
	void (*drain)(struct http_conn *c);
	/* The connection has ended, and its requests are closed: free what it holds. */
	void (*gone)(struct http_conn *c);
};

extern const struct http_protocol http1_protocol;

/* http_account.c */
int http_account_own(struct http_accounts *all, struct request *r,
		     const char *name) MUST_CHECK;
/* Account for the body of @r, which has @len bytes so far; false: over the limit. */
bool http_account_body(struct http_accounts *all, struct request *r, size_t len);
/* Account for @n bytes of a body that may arrive before the handler takes them. */
bool http_account_window(struct http_accounts *all, struct request *r, size_t n);
bool http_account_keep(struct http_accounts *all, struct request *r, size_t n);
/* Release the memory that @r holds in the account @which. */
void http_account_give(struct http_accounts *all, enum http_account which,
		       struct request *r);
/* Release everything that the ended request holds. */
void http_account_leave(struct http_accounts *all, struct request *r);

/* http_server.c */
struct http_accounts *http_server_accounts(struct http_server *s);
/*
 * Like http_server_adopt(), for a client that sends frames of HTTP/2 without TLS. Only
 * tests have such clients.
 */
int http_server_adopt_http2(struct http_server *s, int fd);
/* Record whether the client of @c has authenticated, and update the counts. */
void http_server_known(struct http_conn *c, bool known);
void http_server_set_deadline(struct http_server *s, struct http_timer *t,
			      enum deadline d);
void http_server_gone(struct http_conn *c);
struct net_loop *http_server_loop(const struct http_server *s);
const struct http_options *http_server_options(const struct http_server *s);
struct http_head *
http_server_head(struct http_server *s); /* a buffer for parsing one head at a time */
const char *http_server_date(struct http_server *s); /* value of the header Date */
/* Write a new id for a request. */
void http_server_id(struct http_server *s, char id[ID_LEN + 1]);
struct buf *
http_server_scratch(struct http_server *s); /* an empty buffer for one head at a time */
bool http_server_is_draining(const struct http_server *s);

/* http_conn.c */
int http_conn_open(struct http_server *server, int fd, struct tls *tls,
		   struct http_conn **ret);
/* The connection has ended for the reason @why; closes its requests. */
void http_conn_end(struct http_conn *c, int why);
/* Set the deadline @d, unless it is set already and the client has made no progress. */
void http_conn_set_deadline(struct http_server *s, struct http_timer *t, enum deadline d,
			    uint64_t progress);
/* The state changed outside of http_conn_work(): run it again from the loop. */
void http_conn_kick(struct http_conn *c);
/* Create a request with copies of all strings of the head. NULL: out of memory. */
struct request *http_conn_new_request(struct http_conn *c, const struct http_head *h,
				      const char *data, size_t n);
/* Add a piece of the body to those that were collected. -ENOMEM: out of memory. */
int http_conn_collect(struct request *r, const char *piece, size_t len);
/* Tell the handler that the body is complete. */
void http_conn_tell_end(struct request *r);
/*
 * A deadline to write has passed. If this process was stopped for a while, the client may
 * have read data in the meantime: send more, and return whether it did.
 */
bool http_conn_reads_on(struct http_conn *c);
/* The deadline of the body of @r, which the handler reads. */
enum deadline http_conn_body_deadline(const struct request *r);
/* Call the handler. */
void http_conn_start_request(struct request *r);
/*
 * The server has too many connections: answer 503, or GOAWAY over HTTP/2, and end this
 * one.
 */
void http_conn_overfull(struct http_conn *c);
/* The request has ended; calls its closed(), and frees it. */
void http_conn_close_request(struct request *r, int why);
/* Process the current state of a connection without new bytes. */
void http_conn_look_again(struct http_conn *c);
/* Close the server's half, and read until the client has closed its half. */
void http_conn_linger(struct http_conn *c);
/*
 * Return whether the rest of the body is so small that reading it costs less than a new
 * connection.
 */
bool http_conn_body_is_cheap(const struct http_conn *c);

/* http1_answer.c */
/*
 * Send the server's own response, to the current request if there is one; then end the
 * connection.
 */
void http1_refuse(struct http_conn *c, int status, const char *why, int error);
/* The same, for a head that cannot be read, of which @head has the first @n bytes. */
void http1_refuse_head(struct http_conn *c, int status, const char *why, int error,
		       const char *head, size_t n);

/* http_answer.c */
/* The body of a refusal, in a buffer that the next refusal overwrites. */
struct buf *http_refusal_body(struct http_server *s, struct http_refusal *f);
/* Copy the headers of http_add_header(), at most HTTP_ADDED_MAX. Returns their number. */
size_t http_refusal_add_headers(const struct request *r, struct http_header *to);
/* Note the path of a request that is refused; @n bytes may contain more than it. */
void http_refusal_set_path(struct http_refusal *f, const char *path, size_t n);
/* Return whether a response needs the header Retry-After, and has none. */
bool http_wants_retry(int status, const struct http_header *headers, size_t n);

/* http_text.c */
const char *http_status_text(int status);
const char *http_refusal_code(int status);

#define CONTAINER(ptr, type, member) \
	((type *)(void *)((char *)(ptr)-offsetof(type, member)))

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

static inline bool link_empty(const struct link *head)
{
	return head->next == head;
}

#endif /* NET_HTTP_INTERNAL_H */
