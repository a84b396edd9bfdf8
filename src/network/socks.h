/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socks.h - the server's side of SOCKS 5 (RFC 1928, 1929), up to the request
 *
 *	struct socks s = { 0 };
 *
 *	e = socks_feed(&s, data, n, &used);	until it is SOCKS_REQUEST or SOCKS_REFUSED
 *
 * After each event but SOCKS_MORE, the caller sends the reply, if there is one, and feeds
 * what was not used. Only CONNECT is supported, to an IPv4 or IPv6 address or to a name.
 * A client may send a user and a password, which are not checked here: who can reach the
 * proxy is who may use it.
 */
#ifndef NETWORK_SOCKS_H
#define NETWORK_SOCKS_H

#include "network/host.h"

#define SOCKS_REPLY_MAX 10

enum socks_event {
	SOCKS_MORE,    /* more bytes are needed */
	SOCKS_REPLY,   /* send the reply, and go on */
	SOCKS_REQUEST, /* host and port are known; answer with socks_reply() */
	SOCKS_REFUSED, /* send the reply, if any, and close; @why says why */
};

enum socks_code {
	SOCKS_SUCCEEDED = 0,
	SOCKS_FAILED = 1,
	SOCKS_NOT_ALLOWED = 2,
	SOCKS_NET_UNREACHABLE = 3,
	SOCKS_HOST_UNREACHABLE = 4,
	SOCKS_CONNECTION_REFUSED = 5,
	SOCKS_NO_COMMAND = 7,
	SOCKS_NO_ADDRESS_TYPE = 8,
};

struct socks {
	struct host host;
	char name[HOST_TEXT_SIZE];
	uint16_t port;
	char user[256], password[256];
	uint8_t reply[SOCKS_REPLY_MAX];
	uint8_t reply_len;
	const char *why;

	/* Private: the message that is not complete, and which one it is. */
	uint8_t state;
	uint16_t have;
	uint8_t message[513];
};

/* Use bytes up to the end of one message; *@ret_used: how many. */
enum socks_event socks_feed(struct socks *s, const uint8_t *data, size_t n,
			    size_t *ret_used);
/* The reply to a request, in @s. */
void socks_reply(struct socks *s, enum socks_code code);

#endif /* NETWORK_SOCKS_H */
