/* SPDX-License-Identifier: Apache-2.0 */
/*
 * socks.c - handle one message after another; each state computes the length of its
 * message from what has arrived, and handles the message when it is complete
 */
#include "network/socks.h"

#include <arpa/inet.h>
#include <string.h>

enum {
	VERSION = 5,
	AUTH_VERSION = 1,
	AUTH_NONE = 0,
	AUTH_PASSWORD = 2,
	AUTH_NOT_ACCEPTABLE = 0xff,
	COMMAND_CONNECT = 1,
	ADDRESS_V4 = 1,
	ADDRESS_NAME = 3,
	ADDRESS_V6 = 4,
	REQUEST_FIXED = 4, /* number of bytes before the address */
};

static enum socks_event socks_refuse(struct socks *s, const char *why)
{
	s->why = why;
	return SOCKS_REFUSED;
}

static enum socks_event socks_refuse_code(struct socks *s, enum socks_code code,
					  const char *why)
{
	socks_reply(s, code);
	return socks_refuse(s, why);
}

static void socks_reply_two(struct socks *s, unsigned version, unsigned value)
{
	s->reply[0] = (uint8_t)version;
	s->reply[1] = (uint8_t)value;
	s->reply_len = 2;
}

void socks_reply(struct socks *s, enum socks_code code)
{
	/* The bound address is reported as 0.0.0.0, port 0. */
	static const uint8_t rest[8] = { 0, ADDRESS_V4 };

	socks_reply_two(s, VERSION, code);
	(void)memcpy(s->reply + 2, rest, sizeof(rest));
	s->reply_len = SOCKS_REPLY_MAX;
}

/* ------------------------------------------------------------------ messages */

static size_t socks_greeting_size(const struct socks *s)
{
	return s->have < 2 ? 2 : 2U + s->message[1];
}

static enum socks_event socks_greeting(struct socks *s)
{
	const uint8_t *methods = s->message + 2;
	size_t n = s->message[1];
	bool plain = memchr(methods, AUTH_NONE, n),
	     password = memchr(methods, AUTH_PASSWORD, n);

	socks_reply_two(s, VERSION,
			plain      ? AUTH_NONE
			: password ? AUTH_PASSWORD
				   : AUTH_NOT_ACCEPTABLE);
	if (!plain && !password)
		return socks_refuse(s,
				    "the client offers no method of authentication that "
				    "is supported");
	s->state = plain ? 2 : 1;
	return SOCKS_REPLY;
}

static size_t socks_auth_size(const struct socks *s)
{
	size_t user = s->have < 2 ? 0 : s->message[1];

	return s->have < 3 + user ? 3 + user : 3 + user + s->message[2 + user];
}

static enum socks_event socks_auth(struct socks *s)
{
	size_t user = s->message[1], password = s->message[2 + user];

	(void)memcpy(s->user, s->message + 2, user);
	s->user[user] = '\0';
	(void)memcpy(s->password, s->message + 3 + user, password);
	s->password[password] = '\0';
	(void)memset(s->message, 0, sizeof(s->message));
	socks_reply_two(s, AUTH_VERSION, 0);
	s->state = 2;
	return SOCKS_REPLY;
}

/* Return the length of the address, or of a name with its length byte; 0: the type is
 * unknown. */
static size_t socks_address_size(const struct socks *s)
{
	switch (s->message[3]) {
	case ADDRESS_V4:
		return 4;
	case ADDRESS_V6:
		return 16;
	case ADDRESS_NAME:
		return s->have > REQUEST_FIXED ? 1U + s->message[REQUEST_FIXED] : 1;
	default:
		return 0;
	}
}

static size_t socks_request_size(const struct socks *s)
{
	size_t address = s->have < REQUEST_FIXED ? 0 : socks_address_size(s);

	return address == 0 ? REQUEST_FIXED : REQUEST_FIXED + address + 2;
}

static enum socks_event socks_request(struct socks *s)
{
	const uint8_t *m = s->message, *port = m + s->have - 2;
	struct warren_error err = WARREN_ERROR_INIT;
	struct address_net net;
	int r = 0;

	if (m[1] != COMMAND_CONNECT)
		return socks_refuse_code(s, SOCKS_NO_COMMAND,
					 "only CONNECT is supported");
	if (socks_address_size(s) == 0)
		return socks_refuse_code(s, SOCKS_NO_ADDRESS_TYPE,
					 "the type of address is not supported");
	if (m[2] != 0)
		return socks_refuse_code(s, SOCKS_FAILED, "the request is malformed");
	if (m[3] == ADDRESS_NAME) {
		r = host_parse_single((const char *)m + REQUEST_FIXED + 1,
				      m[REQUEST_FIXED], s->name, &s->host, &err);
	} else {
		bool v4 = m[3] == ADDRESS_V4;

		address_net_widen(v4 ? AF_INET : AF_INET6, m + REQUEST_FIXED,
				  v4 ? 32 : 128, &net);
		host_of_address(&net, &s->host);
	}
	s->port = (uint16_t)(port[0] << 8 | port[1]);
	if (r < 0 || s->port == 0)
		return socks_refuse_code(s, SOCKS_NOT_ALLOWED,
					 r < 0 ? "the name is malformed"
					       : "the port is 0");
	return SOCKS_REQUEST;
}

/* The table is indexed by the state. */
static const struct {
	uint8_t version;
	/*
	 * Return the length of the message, as far as the received bytes show it; if it
	 * is incomplete, at least one more than has arrived.
	 */
	size_t (*size)(const struct socks *s);
	enum socks_event (*complete)(struct socks *s);
} socks_messages[] = {
	{ VERSION, socks_greeting_size, socks_greeting },
	{ AUTH_VERSION, socks_auth_size, socks_auth },
	{ VERSION, socks_request_size, socks_request },
};

enum socks_event socks_feed(struct socks *s, const uint8_t *data, size_t n,
			    size_t *ret_used)
{
	size_t used = 0, size;
	enum socks_event event;

	s->reply_len = 0;
	for (;;) {
		size = socks_messages[s->state].size(s);
		if (s->have > 0 && s->message[0] != socks_messages[s->state].version) {
			*ret_used = used;
			return socks_refuse(s, "it is not SOCKS 5");
		}
		if (s->have == size)
			break;
		if (used == n) {
			*ret_used = used;
			return SOCKS_MORE;
		}
		s->message[s->have++] = data[used++];
	}
	event = socks_messages[s->state].complete(s);
	s->have = 0;
	*ret_used = used;
	return event;
}
