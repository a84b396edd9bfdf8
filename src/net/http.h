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
 * A request. The callback comes when its head is there, and at once or at any later
 * time the handler
 *	- takes the body: http_collect() or http_stream(), or leaves it alone;
 *	- answers: http_respond(), http_respond_file(), or http_begin_response() with
 *	  http_write() and http_end(). Exactly once.
 * The request, its strings included, lives until its closed() callback returns,
 * which comes exactly once and last, whether it was answered (0) or not: the
 * client went away, was too slow, broke the rules in its body (-errno). After the
 * call that completes the answer the request must not be touched, save in closed().
 * No callback is called from inside a function of this header.
 *
 * Requests of one connection come one after another, in order; those that are
 * sent ahead wait in the client's socket. Malformed ones are answered by the server
 * itself, and no handler sees them.
 *
 * Memory: a connection that waits (between requests, or in a streamed answer)
 * costs about a kilobyte. Everything that a client can make grow is bounded.
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
	pid_t pid; /* of a unix socket, as the kernel told when it connected; else -1 */
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
	 * For http_stream(), of a body of known length: room for the next piece, of which
	 * *@size bytes are left. Set *@size to what there is room for, and return it: the
	 * next piece is there, if it is not in a buffer already, and no byte of another
	 * request ever is. Must stay until that piece has come or the request is paused
	 * or closed. NULL: no such room.
	 */
	char *(*room)(struct http_request *req, size_t *size);
	void (*closed)(struct http_request *req, int why);
	struct http_request **handle; /* becomes NULL when it is closed; may be NULL */
};

/*
 * The server's answer to what no handler sees: a malformed request, a timeout, a body too
 * large.
 */
struct http_refusal {
	int status;          /* 400, 408, 413, 417, 431, 500, 501, 502, 503, 504, 505 */
	const char *code;    /* "bad_request", "too_large", ... */
	const char *message; /* a sentence for people */
	const char *request_id;
	const struct http_peer *peer; /* of what never became a request; else NULL */
};

/* 0 takes the default. */
struct http_limits {
	unsigned connections; /* at a time; 16,384 */
	/*
	 * Of these, so many that TCP does not get: they are for unix sockets; and as many
	 * again for clients that are known (http_known()). 0: none. Strangers that wait
	 * for nothing but their own next request make room for one another, the oldest
	 * first.
	 */
	unsigned reserve;
	unsigned header_bytes; /* of a head; 32 kB */
	unsigned header_ms;    /* for a head, from its first byte; 10 s */
	unsigned idle_ms;      /* between requests; 75 s */
	unsigned body_ms;      /* without a byte of a body that is wanted; 30 s */
	unsigned write_ms;     /* without the client taking a byte of the answer; 60 s */
	/*
	 * A client that has ended its half may be gone, or may only have said all it
	 * had to say; TCP does not tell. So much longer an answer may take, then
	 * the client counts as gone; 3 s
	 */
	unsigned half_close_ms;
	/*
	 * Bytes of bodies that are being collected, of all requests together, beyond the
	 * first 16 kB of each; 256 MB, and half as much for what is kept for answers.
	 * Each owner of requests (http_owner()) has a share of both. What would be more
	 * is refused (503).
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
 * Ends every connection; their requests are closed with -ECANCELED, from within. Not to
 * be called from a callback of a request.
 */
struct http_server *http_server_free(struct http_server *server);
/* No new connections, none that idles; requests under way are answered. */
void http_server_drain(struct http_server *server);
/*
 * After that, from time to time: connections are ended on which nothing is left but for
 * the client to take its answer, if it has taken nothing since the time before.
 */
void http_server_cut(struct http_server *server);
/* Those whose answer has not begun are refused, with 503; after http_server_drain(). */
void http_server_refuse(struct http_server *server, const char *code,
			const char *message);
/* How many connections there are. */
size_t http_server_count(const struct http_server *server);

/* A socket file with @mode. One that nobody listens on is replaced. */
int http_server_listen_unix(struct http_server *server, const char *path, mode_t mode,
			    struct warren_error *err);
/* "127.0.0.1:80", "[::1]:80", port 0 for any. @tls (borrowed) or NULL. */
int http_server_listen_tcp(struct http_server *server, const char *address,
			   struct tls *tls, uint16_t *ret_port, struct warren_error *err);
/* A socket that listens already, unix or TCP; takes @fd. */
int http_server_listen_fd(struct http_server *server, int fd, struct tls *tls,
			  struct warren_error *err);

/* Serve a connection that somebody else has accepted; takes @fd, also on failure. */
int http_server_adopt(struct http_server *server, int fd, struct tls *tls);

/* ------------------------------------------------------------------ the request */

/* A header's value, by its name in any case; NULL: none. Of several, the first. */
const char *http_header(const struct http_request *req, const char *name);
/* Is @token in the list that is the header @name? Several headers are one list. */
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
 * The whole body, once it is there: fn(req, body, n), with a NUL behind it, borrowed
 * until fn returns. More than @max bytes are refused (413) and end the request.
 */
void http_collect(struct http_request *req, size_t max,
		  void (*fn)(struct http_request *req, const char *body, size_t n));
/* Each piece as it comes, borrowed until fn returns; a piece of 0 bytes is the end. */
void http_stream(struct http_request *req,
		 void (*fn)(struct http_request *req, const char *data, size_t n));
/* No further pieces until resumed: the client has to wait. */
void http_pause(struct http_request *req);
void http_resume(struct http_request *req);

/* ------------------------------------------------------------------ the answer */

/*
 * Content-Length, Transfer-Encoding, Connection and Date are the server's to set;
 * headers that are malformed (a line end in a value) become a 500 and -EINVAL. What is
 * returned needs no look: closed() tells in any case.
 */
int http_respond(struct http_request *req, int status, const struct http_header *headers,
		 size_t n_headers, const void *body, size_t n);
/* @n bytes of @fd (taken) from @offset on. */
int http_respond_file(struct http_request *req, int status,
		      const struct http_header *headers, size_t n_headers, int fd,
		      uint64_t offset, uint64_t n);
/* @length bytes will follow; -1: as many as there are. */
int http_begin_response(struct http_request *req, int status,
			const struct http_header *headers, size_t n_headers,
			int64_t length);
/*
 * The handler keeps @n bytes more for the answer, which are counted until the request is
 * closed. False: there is no room for them beside those of others.
 */
bool http_keep(struct http_request *req, size_t n);
/* 0: go on; 1: taken, but wait for drained() before more; -errno: closed() follows. */
int http_write(struct http_request *req, const void *data, size_t n);
/* The answer is complete; one that is shorter than its length cuts the connection. */
int http_end(struct http_request *req);
/*
 * As http_respond() with the body of a refusal. @code NULL: the usual one of that status.
 */
int http_refuse(struct http_request *req, int status, const char *code,
		const char *message);
/*
 * Cut the connection: all that is left to do when an answer that has begun cannot go on.
 */
void http_abort(struct http_request *req);
/*
 * The client may not have what it asked for any more: if the answer has not begun, it is
 * @status and @why; else the connection is cut. The one function here that calls closed()
 * from within: to be called from the loop (a task, a timer), not from a callback of a
 * request.
 */
void http_cut(struct http_request *req, int status, const char *why);
/*
 * Who sends it is known, or is not: shows a token that is right, or one that is not. What
 * is known stays so for the requests that follow on its connection.
 */
void http_known(struct http_request *req, bool known);
/*
 * Whose it is: what is held for it counts as @name's, of which there is a share for each.
 * To be called before the body is asked for. -ENOMEM.
 */
int http_owner(struct http_request *req, const char *name) MUST_CHECK;
bool http_response_begun(const struct http_request *req);
/* What it was answered with, for logs; 0: nothing yet. 101: it was taken over. */
int http_status(const struct http_request *req);

/*
 * Answer 101 and take the connection over: from now on http_write() sends bytes as
 * they are and @fn gets them as they come (0 bytes: the client has ended its half;
 * http_end() ends ours). Both halves ended, or http_abort(), and it is closed. No
 * limit of time applies any more but write_ms. Callbacks may come after http_end(), and
 * http_abort() may be called. What cannot be taken over (HTTP/1.0, a request with a body)
 * is answered with an error, and -EINVAL returned.
 */
int http_upgrade(struct http_request *req, const struct http_header *headers,
		 size_t n_headers,
		 void (*fn)(struct http_request *req, const char *data, size_t n));

#endif /* NET_HTTP_H */
