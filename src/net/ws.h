/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ws.h - the server's side of a WebSocket (RFC 6455), on top of an upgraded request
 *
 *	static void on_request(struct http_request *req, void *ctx)
 *	{
 *		if (ws_accept(req, &(struct ws_options){ .message = echo }, NULL) < 0)
 *			return; (it has been answered)
 *	}
 *
 * Messages come whole, text is valid UTF-8. Pings are answered, silent peers are probed,
 * and a peer that violates the protocol gets a close message and is disconnected. No
 * extensions.
 */
#ifndef NET_WS_H
#define NET_WS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_request;
struct ws;

struct ws_options {
	/* @data is borrowed until it returns. */
	void (*message)(struct ws *ws, bool text, const char *data, size_t n);
	void (*drained)(struct ws *ws); /* ws_send() may go on; NULL: not needed */
	/*
	 * Once and last; @code is what the client closed with, 1006 when it did not. May
	 * be NULL.
	 */
	void (*closed)(struct ws *ws, unsigned code);
	void *user;
	const char *protocol; /* the one chosen of Sec-WebSocket-Protocol; NULL: none */
	size_t max_message;   /* 0: 1 MiB */
	unsigned ping_ms; /* of silence until a ping; as much again and it is gone; 0: 30
			     s */
};

/*
 * Is it a handshake? 0, or the status that refuses it (400, 426) and why: for those
 * who have something to do before they accept it.
 */
int ws_check(const struct http_request *req, const char **ret_why);
/*
 * Take over @req, whose user and callbacks become the WebSocket's. A request that is no
 * handshake is answered (400, 426) and -EINVAL returned. Origin is the caller's to check.
 */
int ws_accept(struct http_request *req, const struct ws_options *options,
	      struct ws **ret);
void *ws_user(const struct ws *ws);

/* 0: go on; 1: taken, but wait for drained() before more; -errno: closed() follows. */
int ws_send(struct ws *ws, bool text, const void *data, size_t n);
/* No further messages until resumed: the client has to wait. */
void ws_pause(struct ws *ws);
void ws_resume(struct ws *ws);
/*
 * Say goodbye; closed() comes when the client has answered or time is up. @reason may be
 * NULL.
 */
void ws_close(struct ws *ws, unsigned code, const char *reason);

#endif /* NET_WS_H */
