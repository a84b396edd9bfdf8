/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socks.h - the server side of SOCKS 5 (RFC 1928, 1929), up to the request
 *
 *	struct socks s = { 0 };
 *
 *	e = socks_feed(&s, data, n, &used);	until it is SOCKS_REQUEST or SOCKS_REFUSED
 *
 * After each event except SOCKS_MORE, the caller sends the reply, if there is one, and
 * feeds the remaining bytes. Only CONNECT is supported, to an IPv4 or IPv6 address or to
 * a name. A client may send a user and a password, but they are not checked: every client
 * that can reach the proxy may use it.
 */
#ifndef NETWORK_SOCKS_H
#define NETWORK_SOCKS_H

#include "network/host.h"

#define SOCKS_REPLY_MAX 10

enum socks_event {
	SOCKS_MORE,    /* more bytes are needed */
	SOCKS_REPLY,   /* send the reply, and continue */
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

	/* Private: which message is expected, and its bytes so far. */
	uint8_t state;
	uint16_t have;
	uint8_t message[513];
};

/* Parse bytes up to the end of one message. *@ret_used is the number of bytes used. */
enum socks_event socks_feed(struct socks *s, const uint8_t *data, size_t n,
			    size_t *ret_used);
/* Write the reply to a request into @s. */
void socks_reply(struct socks *s, enum socks_code code);

#endif /* NETWORK_SOCKS_H */
