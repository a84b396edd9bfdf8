/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http.h - an HTTP server: HTTP/1.1, and HTTP/2 over TLS
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
 * A request. The server calls the handler when the head of a request has arrived. At once
 * or at any later time, the handler
 *	- reads the body with http_collect() or http_stream(), or ignores it;
 *	- answers exactly once: with http_respond(), http_respond_file(), or
 *	  http_begin_response(), http_write() and http_end().
 * The request and its strings live until its closed() callback returns. closed() is
 * called exactly once and last: with 0 if the request was answered, or with -errno if the
 * client disconnected, was too slow, or sent a malformed body. After the call that
 * completes the response, only closed() may use the request. No function of this header
 * calls a callback.
 *
 * The server handles the requests of a connection of HTTP/1.1 one after another; further
 * requests wait in the client's socket. Over HTTP/2, it handles up to 128 at once. It
 * answers malformed requests itself, without a handler. Handlers need not know which
 * version a client uses.
 *
 * Memory: a waiting connection (between requests, or in a streamed response) costs about
 * a kilobyte. All memory that a client can cause the server to use is bounded.
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

/* The client of a request. */
struct http_peer {
	enum http_peer_kind {
		HTTP_PEER_UNIX,
		HTTP_PEER_TCP,
	} kind;
	bool tls;
	/*
	 * The process id of a client at a unix socket, as the kernel recorded it on
	 * connect; otherwise -1.
	 */
	pid_t pid;
	uid_t uid;
	gid_t gid;
	struct in6_addr address; /* address of a TCP client; IPv4 addresses are mapped */
	uint16_t port;
};

struct http_request {
	const char *method; /* "GET"; case-sensitive */
	const char *target; /* target as sent, beginning with "/" ("*" for OPTIONS) */
	const char *path;   /* path of the target, still encoded: see base/percent.h */
	const char *query;  /* query of the target without the "?"; NULL: none */
	const struct http_header *headers;
	size_t n_headers;
	const struct http_peer *peer;
	bool has_body;
	int64_t length;        /* length of the body; -1: unknown */
	unsigned major, minor; /* version: HTTP/1.0, 1.1 or 2.0 */

	/* Members for the handler: */
	void *user;
	void (*drained)(struct http_request *req); /* http_write() may continue */
	/*
	 * For http_stream() with a body of known length, over HTTP/1: memory for the next
	 * piece; *@size bytes of the body are left. Set *@size to the size of the memory,
	 * and return it. The server receives the next piece there, unless it is already
	 * in a buffer. It never writes bytes of other requests there. The memory must
	 * stay valid until that piece has arrived or the request is paused or closed.
	 * NULL: no such memory.
	 */
	char *(*room)(struct http_request *req, size_t *size);
	void (*closed)(struct http_request *req, int why);
	/* If it is not NULL, *handle is set to NULL when the request is closed. */
	struct http_request **handle;
};

/*
 * The server's own response to requests without a handler: malformed, timed out, body too
 * large.
 */
#define HTTP_REFUSED_PATH 128

struct http_refusal {
	int status;          /* 400, 408, 413, 417, 431, 500, 501, 502, 503, 504, 505 */
	const char *type;    /* the Content-Type of the response; "application/json" */
	const char *code;    /* "bad_request", "too_large", ... */
	const char *message; /* a sentence for users */
	const char *request_id;
	/* The client, if its data was not a valid request; otherwise NULL. */
	const struct http_peer *peer;
	/* The request; NULL: its head could not be read. */
	const struct http_request *req;
	/* Then, the beginning of its path, which was not checked; "": unknown. */
	char path[HTTP_REFUSED_PATH];
};

/* 0: the default. */
struct http_limits {
	unsigned connections; /* maximum concurrent connections; 16,384 */
	/*
	 * How many of these are reserved for unix sockets; as many again are reserved for
	 * known clients (http_known()). 0: none. Idle connections of unknown clients are
	 * closed for new ones, the oldest first.
	 */
	unsigned reserve;
	unsigned header_bytes; /* size of a head; 32 kB */
	unsigned header_ms;    /* time for a head from its first byte; 10 s */
	unsigned idle_ms;      /* time between two requests; 75 s */
	unsigned kept_ms;      /* the same for known clients (http_known()); 330 s */
	unsigned body_ms; /* time without a byte of a body that the handler reads; 30 s */
	/* How long the client may go without reading a byte of the response; 60 s. */
	unsigned write_ms;
	/*
	 * A client that has closed its half may have disconnected, or may only have sent
	 * everything; TCP does not distinguish these. After this time without a response,
	 * the server treats the client as disconnected; 3 s.
	 */
	unsigned half_close_ms;
	/*
	 * Bytes of memory for bodies that are being collected, for all requests together,
	 * without the first 16 kB of each body; 256 MB. Kept responses (http_keep()) may
	 * use half as much in addition. Each owner of requests (http_owner()) has a share
	 * of both. Requests that need more are refused (503).
	 */
	unsigned bodies;
};

struct http_options {
	void (*request)(struct http_request *req, void *ctx);
	/*
	 * Write the body of a refusal; NULL, as JSON:
	 * {"code":..., "message":..., "detail":null, "request_id":...}
	 * May change the status and the type of the response.
	 */
	void (*refused)(struct http_refusal *refusal, struct buf *body, void *ctx);
	void *ctx;
	struct http_limits limits;
};

int http_server_new(struct net_loop *loop, const struct http_options *options,
		    struct http_server **ret, struct warren_error *err);
/*
 * End every connection, and close their requests with -ECANCELED. Returns after that. Do
 * not call this from a callback of a request.
 */
struct http_server *http_server_free(struct http_server *server);
/* Stop accepting, close idle connections, and answer requests in progress. */
void http_server_drain(struct http_server *server);
/*
 * Call this repeatedly after http_server_drain(). It ends connections on which the client
 * only has to read its response, but has read nothing since the last call.
 */
void http_server_cut(struct http_server *server);
/*
 * Answer 503 to all requests whose response has not begun. Call this after
 * http_server_drain().
 */
void http_server_refuse(struct http_server *server, const char *code,
			const char *message);
/* Get the number of connections. */
size_t http_server_count(const struct http_server *server);

/* Listen at a socket file with @mode. Replaces an existing socket without a listener. */
int http_server_listen_unix(struct http_server *server, const char *path, mode_t mode,
			    struct warren_error *err);
/*
 * Listen at "127.0.0.1:80" or "[::1]:80"; port 0: any free port. @tls is borrowed, or
 * NULL.
 */
int http_server_listen_tcp(struct http_server *server, const char *address,
			   struct tls *tls, uint16_t *ret_port, struct warren_error *err);
/* Use a unix or TCP socket that already listens; takes @fd. */
int http_server_listen_fd(struct http_server *server, int fd, struct tls *tls,
			  struct warren_error *err);

/* Serve a connection that was accepted elsewhere; takes @fd, even on failure. */
int http_server_adopt(struct http_server *server, int fd, struct tls *tls);

/* ------------------------------------------------------------------ the request */

/*
 * Get the value of a header; the case of @name is ignored. If there are several, get the
 * first. NULL: none.
 */
const char *http_header(const struct http_request *req, const char *name);
/* Return whether @token is in the list in the header @name. Several headers form one
 * list. */
bool http_header_has(const struct http_request *req, const char *name, const char *token);
/* An id for logs and error bodies. It does not change. */
const char *http_request_id(struct http_request *req);
/* Write "127.0.0.1:1234" or "unix:pid=7,uid=0" to @text. */
void http_peer_text(const struct http_peer *peer, char *text, size_t size);

/*
 * Decode the next "name=value" of the query at *@at and advance *@at. Start with *@at =
 * req->query. A name that is too long becomes "". @value NULL: skip it. Returns 1, 0 at
 * the end, or an error of percent_decode().
 */
int http_query_next(const char **at, char *name, size_t name_size, char *value,
		    size_t value_size);

/*
 * Call fn(req, body, n) once the whole body has arrived. The body ends in a NUL and is
 * borrowed until fn returns. A body of more than @max bytes is refused (413), which ends
 * the request.
 */
void http_collect(struct http_request *req, size_t max,
		  void (*fn)(struct http_request *req, const char *body, size_t n));
/*
 * Called by the function of http_collect(): get the body as a buffer, which then belongs
 * to the caller, without a copy. The server no longer counts its bytes; see http_keep().
 */
struct buf http_take_body(struct http_request *req);
/*
 * Call fn with each piece when it arrives; it is borrowed until fn returns. A piece of 0
 * bytes is the end.
 */
void http_stream(struct http_request *req,
		 void (*fn)(struct http_request *req, const char *data, size_t n));
/*
 * The client may pause between two pieces of the body four times as long as body_ms. For
 * bodies that last as long as a conversation; the handler limits their whole time.
 */
void http_allow_slow_body(struct http_request *req);
/* Deliver no further pieces until http_resume(); the client has to wait. */
void http_pause(struct http_request *req);
void http_resume(struct http_request *req);

/* ------------------------------------------------------------------ the response */

/*
 * The server sets Content-Length, Transfer-Encoding, Connection and Date; malformed
 * headers (such as a line end in a value) cause a 500 and -EINVAL. The return value can
 * be ignored: closed() is always called.
 */
int http_respond(struct http_request *req, int status, const struct http_header *headers,
		 size_t n_headers, const void *body, size_t n);
/*
 * Add a header to the response, whichever function begins it. The strings must stay valid
 * until then. At most HTTP_ADDED_MAX; false: there are more.
 */
#define HTTP_ADDED_MAX 4
bool http_add_header(struct http_request *req, const char *name, const char *value);
/* Send @n bytes of the file @fd from @offset; takes @fd. */
int http_respond_file(struct http_request *req, int status,
		      const struct http_header *headers, size_t n_headers, int fd,
		      uint64_t offset, uint64_t n);
/* Begin a response of @length bytes; -1: unknown length. */
int http_begin_response(struct http_request *req, int status,
			const struct http_header *headers, size_t n_headers,
			int64_t length);
/*
 * Count @n more bytes that the handler keeps for the response, until the request is
 * closed. False: this exceeds the memory limit of the server or of the owner.
 */
bool http_keep(struct http_request *req, size_t n);
/*
 * Send a part of the response. 0: continue; 1: accepted, but wait for drained() before
 * the next write; -errno: closed() follows.
 */
int http_write(struct http_request *req, const void *data, size_t n);
/* Complete the response. If it is shorter than its length, it is aborted. */
int http_end(struct http_request *req);
/*
 * Like http_respond() with the body of a refusal. @code NULL: the default of that status.
 */
int http_refuse(struct http_request *req, int status, const char *code,
		const char *message);
/*
 * Cut the connection, or reset the stream of HTTP/2, because a response that has begun
 * cannot continue.
 */
void http_abort(struct http_request *req);
/*
 * End a request whose client has lost its permission. If the response has not begun, the
 * response is @status and @why; otherwise the response is aborted. This is the only
 * function here that calls closed(): call it from the loop (a task, a timer), not from a
 * callback of a request.
 */
void http_cut(struct http_request *req, int status, const char *why);
/*
 * Set whether the client is known: whether it has shown a valid token. This also applies
 * to later requests on the same connection.
 */
void http_known(struct http_request *req, bool known);
/*
 * Set the owner of the request: its memory counts against the share of @name. Call this
 * before reading the body. -ENOMEM: out of memory.
 */
int http_owner(struct http_request *req, const char *name) MUST_CHECK;
bool http_response_begun(const struct http_request *req);
/* Get the status of the response, for logs; 0: none yet; 101: upgraded. */
int http_status(const struct http_request *req);

/*
 * Answer 101 and take over the connection. From now on, http_write() sends bytes
 * unchanged, and @fn gets the client's bytes when they arrive (0 bytes: the client has
 * closed its half). http_end() closes the server's half. The request is closed when both
 * halves are closed, or after http_abort(). Only the time limit write_ms still applies.
 * After http_end(), callbacks may still be called, and http_abort() is allowed. A request
 * that cannot be taken over (HTTP/1.0, HTTP/2, a request with a body) gets an error, and
 * the function returns -EINVAL.
 */
int http_upgrade(struct http_request *req, const struct http_header *headers,
		 size_t n_headers,
		 void (*fn)(struct http_request *req, const char *data, size_t n));

#endif /* NET_HTTP_H */
