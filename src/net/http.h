/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.h - an HTTP/1.1 server
 *
 *	static void hello(struct http_request *req, void *ctx)
 *	{
 *		static const struct http_header headers[] = {
 *			{ "Content-Type", "text/plain" },
 *		};
 *
 *		http_respond(req, 200, headers, 1, "hello\n", 6);
 *	}
 *	...
 *	http_server_new(loop, &(struct http_options){ .request = hello }, &server, err);
 *	http_server_listen_unix(server, "/run/x.sock", 0600, err);
 *	loop_run(loop);
 *
 * A request. The callback comes when its head has arrived; at once or at any later time,
 * the handler
 *	- reads the body with http_collect() or http_stream(), or ignores it;
 *	- answers: http_respond(), http_respond_file(), or http_begin_response() with
 *	  http_write() and http_end(). Exactly once.
 * The request and its strings live until its closed() callback returns, which comes
 * exactly once and last, whether the request was answered (0) or not: the client
 * disconnected, was too slow, or sent a malformed body (-errno). After the call that
 * completes the answer, only closed() may use the request. No function of this header
 * calls a callback.
 *
 * Requests of one connection come one after another, in order; further requests wait in
 * the client's socket. The server itself answers malformed ones, and no handler sees
 * them.
 *
 * Memory: a waiting connection (between requests, or in a streamed answer) costs about a
 * kilobyte. Everything that a client can make grow is bounded.
 */
#ifndef NET_HTTP_H
#define NET_HTTP_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/id.h"

struct net_loop;
struct tls;
struct http_server;

struct http_header {
	const char *name, *value;
};

/* Who asks. */
struct http_peer {
	enum http_peer_kind {
		HTTP_PEER_UNIX,
		HTTP_PEER_TCP,
	} kind;
	bool tls;
	pid_t pid; /* of a unix socket, from the kernel when it connected; otherwise -1 */
	uid_t uid;
	gid_t gid;
	struct in6_addr address; /* of TCP; version 4 is mapped */
	uint16_t port;
};

struct http_request {
	const char *method; /* "GET": case counts */
	const char *target; /* as it was sent, from "/" on ("*" for OPTIONS) */
	const char *path;   /* of it, still encoded: see base/percent.h */
	const char *query;  /* of it, without the "?"; NULL: none */
	const struct http_header *headers;
	size_t n_headers;
	const struct http_peer *peer;
	bool has_body;
	int64_t length; /* of the body; -1: chunked */
	unsigned minor; /* of the version: HTTP/1.0 or 1.1 */

	/* The handler's own: */
	void *user;
	void (*drained)(struct http_request *req); /* http_write() may go on */
	/*
	 * For http_stream() with a body of known length: memory for the next piece;
	 * *@size bytes of the body are left. Set *@size to the size of the memory, and
	 * return it: the next piece is received there, unless it is already in a buffer,
	 * and never a byte of another request. It must stay valid until that piece has
	 * arrived or the request is paused or closed. NULL: no such memory.
	 */
	char *(*room)(struct http_request *req, size_t *size);
	void (*closed)(struct http_request *req, int why);
	struct http_request **handle; /* becomes NULL when it is closed; may be NULL */
};

/*
 * The server's own answer to requests that no handler sees: malformed, timed out, body
 * too large.
 */
struct http_refusal {
	int status;          /* 400, 408, 413, 417, 431, 500, 501, 502, 503, 504, 505 */
	const char *code;    /* "bad_request", "too_large", ... */
	const char *message; /* a sentence for people */
	const char *request_id;
	const struct http_peer
		*peer; /* of data that never became a request; otherwise NULL */
};

/* 0 takes the default. */
struct http_limits {
	unsigned connections; /* at a time; 16,384 */
	/*
	 * How many of these are reserved for unix sockets; as many again are reserved for
	 * known clients (http_known()). 0: none. Idle connections of unknown clients are
	 * closed for new ones, the oldest first.
	 */
	unsigned reserve;
	unsigned header_bytes; /* of a head; 32 kB */
	unsigned header_ms;    /* for a head, from its first byte; 10 s */
	unsigned idle_ms;      /* between requests; 75 s */
	unsigned body_ms;      /* without a byte of a body that the handler reads; 30 s */
	unsigned write_ms;     /* without the client reading a byte of the answer; 60 s */
	/*
	 * A client that has closed its half may have disconnected, or may only have sent
	 * everything; TCP does not distinguish these. After this time without an answer,
	 * the client counts as gone; 3 s
	 */
	unsigned half_close_ms;
	/*
	 * Bytes of bodies that are being collected, of all requests together, beyond the
	 * first 16 kB of each; 256 MB, and half as much for kept answers. Each owner of
	 * requests (http_owner()) has a share of both. More is refused (503).
	 */
	unsigned bodies;
};

struct http_options {
	void (*request)(struct http_request *req, void *ctx);
	/*
	 * Write the body of a refusal, as JSON; NULL:
	 * {"code":..., "message":..., "detail":null, "request_id":...}
	 */
	void (*refused)(const struct http_refusal *refusal, struct buf *body, void *ctx);
	void *ctx;
	struct http_limits limits;
};

int http_server_new(struct net_loop *loop, const struct http_options *options,
		    struct http_server **ret, struct warren_error *err);
/*
 * Ends every connection and closes their requests with -ECANCELED before it returns. Do
 * not call it from a callback of a request.
 */
struct http_server *http_server_free(struct http_server *server);
/* Stop accepting, close idle connections, and answer requests under way. */
void http_server_drain(struct http_server *server);
/*
 * After that, call it from time to time: it ends connections on which the client only has
 * to read its answer, if it has read nothing since the last call.
 */
void http_server_cut(struct http_server *server);
/* Refuse requests whose answer has not begun, with 503; after http_server_drain(). */
void http_server_refuse(struct http_server *server, const char *code,
			const char *message);
/* How many connections there are. */
size_t http_server_count(const struct http_server *server);

/* A socket file with @mode. Replaces one without a listener. */
int http_server_listen_unix(struct http_server *server, const char *path, mode_t mode,
			    struct warren_error *err);
/* "127.0.0.1:80", "[::1]:80", port 0 for any. @tls (borrowed) or NULL. */
int http_server_listen_tcp(struct http_server *server, const char *address,
			   struct tls *tls, uint16_t *ret_port, struct warren_error *err);
/* A socket that already listens, unix or TCP; takes @fd. */
int http_server_listen_fd(struct http_server *server, int fd, struct tls *tls,
			  struct warren_error *err);

/* Serve a connection that was accepted elsewhere; takes @fd, even on failure. */
int http_server_adopt(struct http_server *server, int fd, struct tls *tls);

/* ------------------------------------------------------------------ the request */

/* A header's value by its name, ignoring case; NULL: none. The first of several. */
const char *http_header(const struct http_request *req, const char *name);
/* Whether @token is in the list in the header @name. Several headers form one list. */
bool http_header_has(const struct http_request *req, const char *name, const char *token);
/* A name for logs and error bodies; stays the same. */
const char *http_request_id(struct http_request *req);
/* "127.0.0.1:1234", "unix:pid=7,uid=0" into @text. */
void http_peer_text(const struct http_peer *peer, char *text, size_t size);

/*
 * The next "name=value" of the query at *@at, decoded; *@at moves on. 1, 0 at the end,
 * or as percent_decode(). Start with *@at = req->query.
 */
int http_query_next(const char **at, char *name, size_t name_size, char *value,
		    size_t value_size);

/*
 * The whole body, once it has arrived: fn(req, body, n), with a NUL after it, borrowed
 * until fn returns. More than @max bytes are refused (413) and end the request.
 */
void http_collect(struct http_request *req, size_t max,
		  void (*fn)(struct http_request *req, const char *body, size_t n));
/* Each piece as it arrives, borrowed until fn returns; a piece of 0 bytes is the end. */
void http_stream(struct http_request *req,
		 void (*fn)(struct http_request *req, const char *data, size_t n));
/* No further pieces until it is resumed: the client has to wait. */
void http_pause(struct http_request *req);
void http_resume(struct http_request *req);

/* ------------------------------------------------------------------ the answer */

/*
 * The server sets Content-Length, Transfer-Encoding, Connection and Date; malformed
 * headers (a line end in a value) cause a 500 and -EINVAL. The return value can be
 * ignored: closed() comes in any case.
 */
int http_respond(struct http_request *req, int status, const struct http_header *headers,
		 size_t n_headers, const void *body, size_t n);
/* @n bytes of @fd (taken) from @offset. */
int http_respond_file(struct http_request *req, int status,
		      const struct http_header *headers, size_t n_headers, int fd,
		      uint64_t offset, uint64_t n);
/* @length bytes will follow; -1: not known. */
int http_begin_response(struct http_request *req, int status,
			const struct http_header *headers, size_t n_headers,
			int64_t length);
/*
 * The handler keeps @n more bytes for the answer, which count until the request is
 * closed. False: the accounts of all requests leave no room for them.
 */
bool http_keep(struct http_request *req, size_t n);
/*
 * 0: continue; 1: accepted, but wait for drained() before more; -errno: closed() follows.
 */
int http_write(struct http_request *req, const void *data, size_t n);
/* The answer is complete; one that is shorter than its length cuts the connection. */
int http_end(struct http_request *req);
/*
 * Like http_respond() with the body of a refusal. @code NULL: the default of that status.
 */
int http_refuse(struct http_request *req, int status, const char *code,
		const char *message);
/* Cut the connection, if an answer that has begun cannot continue. */
void http_abort(struct http_request *req);
/*
 * The client may no longer have what it requested: if the answer has not begun, it is
 * @status and @why; otherwise the connection is cut. This is the only function here that
 * calls closed(): call it from the loop (a task, a timer), not from a callback of a
 * request.
 */
void http_cut(struct http_request *req, int status, const char *why);
/*
 * Whether the client is known: it has shown a valid token. This applies to later requests
 * on the same connection too.
 */
void http_known(struct http_request *req, bool known);
/*
 * The owner of the request: memory held for it counts against @name's share. Call it
 * before reading the body. -ENOMEM.
 */
int http_owner(struct http_request *req, const char *name) MUST_CHECK;
bool http_response_begun(const struct http_request *req);
/* The status of its answer, for logs; 0: none yet. 101: it was taken over. */
int http_status(const struct http_request *req);

/*
 * Answer 101 and take the connection over: from now on http_write() sends bytes unchanged
 * and @fn gets them as they arrive (0 bytes: the client has closed its half; http_end()
 * closes the server's half). The request is closed when both halves are closed, or after
 * http_abort(). Only the time limit write_ms still applies. Callbacks may come after
 * http_end(), and http_abort() may be called. A request that cannot be taken over
 * (HTTP/1.0, a request with a body) gets an error, and the function returns -EINVAL.
 */
int http_upgrade(struct http_request *req, const struct http_header *headers,
		 size_t n_headers,
		 void (*fn)(struct http_request *req, const char *data, size_t n));

#endif /* NET_HTTP_H */
