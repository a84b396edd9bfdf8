/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_hello.h - the name that a TLS client asks for, from the first bytes it sends
 *
 *	AUTO_CLIENT_HELLO struct client_hello h = CLIENT_HELLO_INIT;
 *
 *	r = client_hello_feed(&h, data, n);	again with more, while it is 0
 *
 * The message may be split over records, and the records over segments, in any way. It is
 * parsed when it is complete. The caller keeps the bytes and forwards them.
 *
 * With Encrypted Client Hello, the name comes from the outer message: it is the public
 * name of the server that can decrypt the inner message.
 */
#ifndef NETWORK_CLIENT_HELLO_H
#define NETWORK_CLIENT_HELLO_H

#include <stdint.h>

#include "base/buf.h"

#define CLIENT_HELLO_MAX      32768 /* maximum bytes in the message */
#define CLIENT_HELLO_WIRE_MAX 65536 /* maximum bytes in all records of the message */

struct client_hello {
	/* Filled when it is complete: */
	char name[256];  /* for host_parse_single(); only its length is checked */
	size_t name_len; /* 0: the client sent no name */
	bool ech;        /* there is an inner message, or something that looks like one */

	/* Private: */
	struct buf message;
	uint8_t header[5]; /* header of a record */
	uint8_t have;      /* bytes of the header received */
	uint16_t left;     /* bytes of the record still missing */
	uint32_t wire;     /* total bytes received */
};

#define CLIENT_HELLO_INIT                             \
	{                                             \
		.message = BUF_INIT(CLIENT_HELLO_MAX) \
	}

/*
 * Returns 1 if the message is complete, 0 if more bytes are needed. -EBADMSG: it is not a
 * ClientHello, or servers could parse it differently; -EMSGSIZE: it is too long; -ENOMEM.
 */
int client_hello_feed(struct client_hello *h, const uint8_t *data, size_t n) MUST_CHECK;
void client_hello_done(struct client_hello *h);

#define AUTO_CLIENT_HELLO CLEANUP(client_hello_done)

#endif /* NETWORK_CLIENT_HELLO_H */
