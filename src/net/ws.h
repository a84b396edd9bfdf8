/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ws.h - the server side of a WebSocket (RFC 6455), on top of an upgraded request
 *
 *	static void on_request(struct http_request *req, void *ctx)
 *	{
 *		if (ws_accept(req, &(struct ws_options){ .message = echo }, NULL) < 0)
 *			return; (it has been answered)
 *	}
 *
 * The callback gets whole messages; text is valid UTF-8. Pings are answered, and silent
 * peers get a ping. A peer that violates the protocol gets a close message and is
 * disconnected. Extensions are not supported.
 */
#ifndef NET_WS_H
#define NET_WS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_request;
struct ws;

struct ws_options {
	/* @data is borrowed until the callback returns. */
	void (*message)(struct ws *ws, bool text, const char *data, size_t n);
	void (*drained)(struct ws *ws); /* ws_send() may continue; NULL: not needed */
	/*
	 * Called once and last. @code is the client's close code, or 1006 if it sent
	 * none. May be NULL.
	 */
	void (*closed)(struct ws *ws, unsigned code);
	void *user;
	const char *protocol; /* the chosen item of Sec-WebSocket-Protocol; NULL: none */
	size_t max_message;   /* 0: 1 MiB */
	/*
	 * How long a client may be silent before it gets a ping; after the same time
	 * again, it is disconnected. 0: 30 s.
	 */
	unsigned ping_ms;
};

/*
 * Check whether @req is a handshake: 0, or the status of a refusal (400, 426) and its
 * reason. This is for callers that must do something before they accept the handshake.
 */
int ws_check(const struct http_request *req, const char **ret_why);
/*
 * Take over @req, whose user and callbacks become the WebSocket's. If @req is not a
 * handshake, it is answered (400, 426), and the function returns -EINVAL. The caller must
 * check Origin.
 */
int ws_accept(struct http_request *req, const struct ws_options *options,
	      struct ws **ret);
void *ws_user(const struct ws *ws);

/*
 * Send a message. 0: continue; 1: accepted, but wait for drained() before the next;
 * -errno: closed() follows.
 */
int ws_send(struct ws *ws, bool text, const void *data, size_t n);
/* Deliver no further messages until ws_resume(); the client has to wait. */
void ws_pause(struct ws *ws);
void ws_resume(struct ws *ws);
/*
 * Send a close message. closed() is called when the client has answered or after a time
 * limit. @reason may be NULL.
 */
void ws_close(struct ws *ws, unsigned code, const char *reason);

#endif /* NET_WS_H */
