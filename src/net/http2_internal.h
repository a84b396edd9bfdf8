/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http2_internal.h - connections and streams of HTTP/2
 *
 *	http2_conn.c    a connection: frames in both directions, deadlines, floods
 *	http2_stream.c  a stream: its request, its deadline and its end
 *	http2_body.c    the body of the request of a stream
 *	http2_head.c    turns a list of fields into the head of a request
 *	http2_answer.c  sends responses: struct http_protocol for HTTP/2
 *
 * nghttp2 parses frames, compresses headers and counts windows. These files connect it to
 * struct stream below and to struct request above, and limit what a client can use.
 *
 * A stream exists from the first frame of its request until both sides have ended it. Its
 * request is closed when the handler has answered; the rest of the response then waits in
 * the stream, as it waits in the socket's queue with HTTP/1.
 *
 * Functions of http.h only change the state of a stream, and mark it with http2_touch().
 * http2_work() then processes all marked streams, and sends frames. So handlers are never
 * called from within another handler, and nghttp2 is never entered twice.
 */
#ifndef NET_HTTP2_INTERNAL_H
#define NET_HTTP2_INTERNAL_H

#include <nghttp2/nghttp2.h>

#include "net/http_internal.h"

/* Limits of one connection. doc/http.md describes them. */
#define HTTP2_STREAMS 128U
/*
 * Bytes of a body that a client may send before the handler reads it. Any more wait at
 * the client.
 */
#define HTTP2_WINDOW (16U << 10)
/* The same for a body that the handler reads; counted against the owner's memory. */
#define HTTP2_UPLOAD_WINDOW (1U << 20)
#define HTTP2_CONN_WINDOW   (16U << 20)
#define HTTP2_LOW           (16U << 10)

/* Bytes of all streams of a connection. */
struct http2_limits {
	size_t heads;  /* of open streams */
	size_t bodies; /* kept for handlers that do not read, and counted for no owner */
	/*
	 * Responses that wait for the client. Above @high, handlers that stream may queue
	 * only HTTP2_LOW for each stream. Above @hold, further requests wait.
	 */
	size_t high, hold;
};
/*
 * Frames that cost the server more than the client, such as PING or RST_STREAM: so many
 * at once, and so many per second. Each DATA frame that is sent allows some more, because
 * clients answer it with WINDOW_UPDATE.
 */
#define HTTP2_FRAMES          1000U
#define HTTP2_FRAMES_PER_SEC  33U
#define HTTP2_FRAMES_PER_DATA 3U
#define HTTP2_CONTINUATIONS   16U
#define HTTP2_LARGE_HEAD_COST 50U /* of a head that is refused because of its size */
#define HTTP2_LARGE_HEAD      4U  /* times its maximum size: the connection ends */

/* A list of header fields that is being received. */
enum http2_pseudo {
	HTTP2_METHOD,
	HTTP2_PATH,
	HTTP2_AUTHORITY,
	HTTP2_SCHEME,
	HTTP2_PSEUDO_MAX,
};

struct http2_head {
	struct buf pseudo[HTTP2_PSEUDO_MAX];
	struct buf fields; /* "name: value\r\n" for each field */
	struct buf cookie; /* all fields of that name, joined */
	struct buf host;
	size_t size, max; /* bytes so far, and their maximum */
	int status;       /* status of a refusal; 0: valid so far */
	const char *why;
	bool counted; /* as an expensive frame, because it is too large */
};

struct http2_stream {
	struct http_conn *conn;
	struct request *req;     /* NULL: not complete yet, refused, or closed */
	struct link link;        /* link in the list of all streams */
	struct link touched;     /* link in the list of marked streams */
	struct http_timer timer; /* DEADLINE_BODY, _SLOW_BODY, _WRITE, _LINGER */
	struct segments out;     /* the body of the response */
	struct segments in;      /* bytes of the body that the handler has not taken */
	size_t head_bytes;
	uint64_t received, sent;
	int32_t id;
	int why;        /* reason for @aborted */
	bool held;      /* the handler is not called yet */
	bool widened;   /* the window was set for a handler that reads */
	bool counted;   /* the owner's memory includes the window */
	bool body_done; /* the client has ended the body */
	bool begun;     /* the head of the response is submitted */
	bool complete;  /* @out contains the end of the response */
	bool end_sent;  /* the client was sent the end of the response */
	bool aborted;   /* RST_STREAM will be submitted */
	bool reset;     /* RST_STREAM is submitted */
	bool closed;    /* nghttp2 no longer knows the stream */
	bool late;      /* the deadline has passed once, with frames left to read */
};

struct http2 {
	nghttp2_session *session;
	struct http_conn *conn;
	struct link streams, touched;
	struct loop_task later; /* continues to send in a later turn */
	struct http2_head head; /* of the request whose HEADERS frame is being received */
	size_t n_held;
	size_t heads;   /* bytes of all heads of open streams */
	size_t queued;  /* bytes of all responses in memory */
	size_t round;   /* bytes sent in this turn */
	size_t unacked; /* bytes of bodies received before the client knew our settings */
	uint64_t n_heads; /* number of heads so far */
	/* The stream whose HEADERS frame has begun, and is not complete; 0: none. */
	int32_t in_head;
	uint64_t frames_at;
	unsigned frames; /* expensive frames that the client may still send */
	unsigned continuations;
	bool acked; /* the client knows our settings */
	bool flooded;
};

/* http2_conn.c */
extern const struct http_protocol http2_protocol;
/* Speak HTTP/2 on a connection from which nothing was read. */
int http2_conn_open(struct http_conn *c);
/* The server has too many connections: end this one with GOAWAY. */
void http2_overfull(struct http_conn *c);
void http2_drain(struct http_conn *c);
void http2_gone(struct http_conn *c);
/* Process all marked streams, and send frames. */
void http2_run(struct http_conn *c);

/* http2_stream.c */
struct http2_stream *http2_new_stream(struct http_conn *c, int32_t id);
void http2_free_stream(struct http2_stream *st);
/* Process this stream from the loop, or at the end of http2_work(). */
void http2_touch(struct http2_stream *st);
/* Submit RST_STREAM, and drop what the stream holds. */
void http2_reset(struct http2_stream *st, uint32_t code);
void http2_close_request(struct http2_stream *st, int why);
/* Close the request with @error, after the server's own response if none has begun. */
void http2_refuse(struct http2_stream *st, int status, const char *why, int error);
/* The state of a stream has changed: do everything that follows from it. */
void http2_settle(struct http2_stream *st);
/* The limits of a connection: lower ones for a client that has not authenticated. */
const struct http2_limits *http2_limits(const struct http2 *h2);
/* Return whether so much waits for the client that further requests must wait, too. */
bool http2_holds(const struct http2 *h2);
/* Call the handler of a request that waits, unless it has to wait longer. */
void http2_start_held(struct http2_stream *st);

/* http2_body.c */
/* Bytes of the body have arrived: deliver or keep them. */
void http2_body_take(struct http2_stream *st, const char *data, size_t n);
/* Deliver the bytes that were kept, if the handler wants them, and the end. */
void http2_body_settle(struct http2_stream *st);
/* Drop the bytes that were kept, and give them back to the client's window. */
void http2_body_drop(struct http2_stream *st);
/* Return whether the handler waits for bytes of the body. */
bool http2_body_wanted(const struct http2_stream *st);

/* http2_head.c */
void http2_head_start(struct http2_head *b, size_t max);
void http2_head_add(struct http2_head *b, const char *name, size_t name_len,
		    const char *value, size_t value_len);
/*
 * Write the head as text to @text, and parse it. @ended: there is no body. Returns 0, or
 * the status of a refusal with its reason in @h->why.
 */
int http2_head_finish(struct http2_head *b, bool ended, struct buf *text,
		      struct http_head *h);
void http2_head_done(struct http2_head *b);

/* http2_answer.c */
/* Send a response with a complete body on a stream that may have no request. */
int http2_respond(struct http2_stream *st, int status, const struct http_header *headers,
		  size_t n_headers, const void *body, size_t n, bool bodiless);
/* The callback of nghttp2 that sends a DATA frame. */
int http2_on_send_data(nghttp2_session *session, nghttp2_frame *frame,
		       const uint8_t *head, size_t length, nghttp2_data_source *source,
		       void *ctx);
/* Return whether frames can be sent now. If not, http2_work() continues later. */
bool http2_may_send(struct http2 *h2);
void http2_drop_out(struct http2_stream *st);
/* Return whether a handler that waits for drained() may continue. */
bool http2_is_drained(const struct http2_stream *st);

#endif /* NET_HTTP2_INTERNAL_H */
