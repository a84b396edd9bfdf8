/* SPDX-License-Identifier: Apache-2.0 */
/* client_hello.c - join the records of a ClientHello, and find the host name in it */
#include "network/client_hello.h"

#include <errno.h>
#include <string.h>

enum {
	RECORD_HANDSHAKE = 22,
	RECORD_MAX = 16384,
	MESSAGE_CLIENT_HELLO = 1,
	MESSAGE_HEADER = 4,
	EXTENSION_NAME = 0,
	EXTENSION_ECH = 0xfe0d,
	NAME_HOST = 0,
};

/* The rest of a message, or of a part of it. It is empty after a failure. */
struct hello_bytes {
	const uint8_t *at;
	size_t n;
	bool bad;
};

static const uint8_t *hello_take(struct hello_bytes *b, size_t n)
{
	const uint8_t *at = b->at;

	if (b->bad || n > b->n) {
		b->bad = true;
		b->n = 0;
		return NULL;
	}
	b->at += n;
	b->n -= n;
	return at;
}

/* Read a number of @size bytes. */
static uint32_t hello_number(struct hello_bytes *b, size_t size)
{
	const uint8_t *p = hello_take(b, size);
	uint32_t v = 0;

	for (size_t i = 0; p && i < size; i++)
		v = v << 8 | p[i];
	return v;
}

/* Read a part that is preceded by its length, in @size bytes. */
static struct hello_bytes hello_part(struct hello_bytes *b, size_t size, size_t min)
{
	size_t n = hello_number(b, size);
	const uint8_t *at = hello_take(b, n);

	if (n < min)
		b->bad = true;
	return (struct hello_bytes){ .at = at, .n = at ? n : 0, .bad = b->bad };
}

/* Read the name of a host. */
static bool hello_read_name(struct client_hello *h, struct hello_bytes e)
{
	struct hello_bytes list = hello_part(&e, 2, 1);
	uint32_t type = hello_number(&list, 1);
	struct hello_bytes name = hello_part(&list, 2, 1);

	if (name.bad || list.n || e.n || type != NAME_HOST || name.n >= sizeof(h->name) ||
	    h->name_len)
		return false;
	(void)memcpy(h->name, name.at, name.n);
	h->name[name.n] = '\0';
	h->name_len = name.n;
	return true;
}

static bool hello_read_extensions(struct client_hello *h, struct hello_bytes all)
{
	while (all.n > 0) {
		uint32_t type = hello_number(&all, 2);
		struct hello_bytes e = hello_part(&all, 2, 0);

		if (e.bad)
			return false;
		if (type == EXTENSION_NAME && !hello_read_name(h, e))
			return false;
		h->ech |= type == EXTENSION_ECH;
	}
	return !all.bad;
}

/* Read the whole message, after its header. */
static bool hello_read(struct client_hello *h, struct hello_bytes m)
{
	uint32_t version = hello_number(&m, 2);
	struct hello_bytes session, suites, extensions;

	(void)hello_take(&m, 32); /* random */
	session = hello_part(&m, 1, 0);
	suites = hello_part(&m, 2, 2);
	(void)hello_part(&m, 1, 1); /* methods of compression */
	if (m.bad || version >> 8 != 3 || session.n > 32 || suites.n % 2)
		return false;
	if (m.n == 0)
		return true; /* the client is so old that it sends no extensions */
	extensions = hello_part(&m, 2, 0);
	return !m.bad && m.n == 0 && hello_read_extensions(h, extensions);
}

/* Return the length of the message according to its header; 0: the header is not
 * complete. */
static size_t hello_length(const struct client_hello *h)
{
	const uint8_t *p = (const uint8_t *)h->message.data;

	if (h->message.len < MESSAGE_HEADER)
		return 0;
	return MESSAGE_HEADER + ((size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3]);
}

/* The header of a record is complete. */
static int hello_start_record(struct client_hello *h)
{
	h->left = (uint16_t)(h->header[3] << 8 | h->header[4]);
	/* An empty record has no meaning, and could be sent without end. */
	if (h->header[0] != RECORD_HANDSHAKE || h->header[1] != 3 || h->left == 0 ||
	    h->left > RECORD_MAX)
		return -EBADMSG;
	return 0;
}

/* Handle bytes of a record; returns the same as client_hello_feed(). */
static int hello_add(struct client_hello *h, const uint8_t *data, size_t n)
{
	size_t length;

	buf_add(&h->message, data, n);
	if (h->message.failed)
		return h->message.full ? -EMSGSIZE : -ENOMEM;
	h->left -= (uint16_t)n;
	if (h->message.data[0] != MESSAGE_CLIENT_HELLO)
		return -EBADMSG;
	length = hello_length(h);
	if (length > CLIENT_HELLO_MAX)
		return -EMSGSIZE;
	if (length == 0 || h->message.len < length)
		return 0;
	/*
	 * No data may follow the message in its record: some servers would read that
	 * data, others would not.
	 */
	if (h->message.len > length || h->left > 0)
		return -EBADMSG;
	return hello_read(h,
			  (struct hello_bytes){ .at = (const uint8_t *)h->message.data +
						      MESSAGE_HEADER,
						.n = length - MESSAGE_HEADER })
		       ? 1
		       : -EBADMSG;
}

int client_hello_feed(struct client_hello *h, const uint8_t *data, size_t n)
{
	while (n > 0) {
		size_t part;
		int r;

		if (h->left == 0) {
			h->header[h->have++] = *data++;
			n--;
			h->wire++;
			/* The first byte shows that it is not TLS. */
			if (h->header[0] != RECORD_HANDSHAKE)
				return -EBADMSG;
			if (h->have < sizeof(h->header))
				continue;
			h->have = 0;
			r = hello_start_record(h);
			if (r < 0)
				return r;
			continue;
		}
		part = n < h->left ? n : h->left;
		h->wire += (uint32_t)part;
		if (h->wire > CLIENT_HELLO_WIRE_MAX)
			return -EMSGSIZE;
		r = hello_add(h, data, part);
		if (r != 0)
			return r;
		data += part;
		n -= part;
	}
	return 0;
}

void client_hello_done(struct client_hello *h)
{
	buf_done(&h->message);
}
