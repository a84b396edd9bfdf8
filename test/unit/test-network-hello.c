/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-network-hello.c - find the name in a ClientHello (from OpenSSL, or written here),
 * in pieces of any size
 */
#include <errno.h>
#include <openssl/ssl.h>

#include "lib/tap.h"
#include "network/client_hello.h"

/* -------------------------------------------------------------- messages from OpenSSL */

/* Get the first message of an OpenSSL client. */
static size_t openssl_hello(const char *name, int max_version, uint8_t *out, size_t size)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(ctx);
	BIO *in = BIO_new(BIO_s_mem()), *sent = BIO_new(BIO_s_mem());
	int n;

	SSL_set_bio(ssl, in, sent);
	EQ(SSL_set_max_proto_version(ssl, max_version), 1);
	EQ(SSL_set_alpn_protos(ssl, (const unsigned char *)"\2h2\10http/1.1", 12), 0);
	if (name)
		EQ(SSL_set_tlsext_host_name(ssl, name), 1);
	OK(SSL_connect(ssl) < 0);
	n = BIO_read(sent, out, (int)size);
	OK(n > 100);
	SSL_free(ssl);
	SSL_CTX_free(ctx);
	return (size_t)n;
}

/* Feed pieces of @step bytes. The result is known with the last byte, and not before. */
static int feed(struct client_hello *h, const uint8_t *data, size_t n, size_t step)
{
	for (size_t at = 0; at < n; at += step) {
		size_t part = n - at < step ? n - at : step;
		AUTO_FREE uint8_t *exact = malloc(part);
		int r;

		(void)memcpy(exact, data + at, part);
		r = client_hello_feed(h, exact, part);
		if (r != 0 || at + part == n) {
			OK(r != 1 || at + part == n);
			return r;
		}
	}
	return 0;
}

TEST(the_name_is_found_in_any_pieces)
{
	static const char *const names[] = { "pypi.org", "a", NULL };
	static const int versions[] = { TLS1_2_VERSION, TLS1_3_VERSION };
	uint8_t data[4096];

	for (size_t i = 0; i < ARRAY_SIZE(names) * 2; i++) {
		const char *name = names[i / 2];
		size_t n = openssl_hello(name, versions[i % 2], data, sizeof(data));

		for (size_t step = 1; step <= n; step += step < 20 ? 1 : 37) {
			AUTO_CLIENT_HELLO struct client_hello h = CLIENT_HELLO_INIT;

			EQ(feed(&h, data, n, step), 1);
			STREQ(h.name, name ? name : "");
			EQ(h.name_len, name ? strlen(name) : 0);
			EQ(h.ech, false);
		}
	}
}

/* Write the same message in records of @size bytes. */
static size_t split(const uint8_t *data, size_t n, size_t size, uint8_t *out)
{
	size_t len = 0;

	for (size_t at = 5; at < n; at += size) {
		size_t part = n - at < size ? n - at : size;

		(void)memcpy(out + len, "\26\3\1", 3);
		out[len + 3] = (uint8_t)(part >> 8);
		out[len + 4] = (uint8_t)part;
		(void)memcpy(out + len + 5, data + at, part);
		len += 5 + part;
	}
	return len;
}

TEST(the_name_is_found_in_any_records)
{
	static uint8_t data[4096], records[6 * 4096];
	size_t n = openssl_hello("files.pythonhosted.org", TLS1_3_VERSION, data,
				 sizeof(data));

	for (size_t size = 1; size < n; size += size < 20 ? 1 : 41) {
		size_t len = split(data, n, size, records);

		for (size_t step = 1; step < 9; step += 3) {
			AUTO_CLIENT_HELLO struct client_hello h = CLIENT_HELLO_INIT;

			EQ(feed(&h, records, len, step), 1);
			STREQ(h.name, "files.pythonhosted.org");
		}
	}
}

/* -------------------------------------------------------------- messages written here */

struct wire {
	uint8_t data[70000];
	size_t n;
};

static void put(struct wire *w, const void *bytes, size_t n)
{
	OK(w->n + n <= sizeof(w->data));
	(void)memcpy(w->data + w->n, bytes, n);
	w->n += n;
}

#define PUT(w, s) put(w, s, sizeof(s) - 1)

static void put_number(struct wire *w, size_t v, size_t size)
{
	while (size-- > 0)
		put(w, (uint8_t[]){ (uint8_t)(v >> 8 * size) }, 1);
}

/* Write one record with a message that has these extensions. */
static void hello(struct wire *w, const void *extensions, size_t n)
{
	static const uint8_t random[32];

	w->n = 0;
	PUT(w, "\26\3\1");
	put_number(w, 4 + 2 + 32 + 1 + 4 + 2 + 2 + n, 2);
	PUT(w, "\1");
	put_number(w, 2 + 32 + 1 + 4 + 2 + 2 + n, 3);
	PUT(w, "\3\3");
	put(w, random, sizeof(random));
	PUT(w, "\0\0\2\23\1\1\0");
	put_number(w, n, 2);
	put(w, extensions, n);
}

static int result(const struct wire *w, struct client_hello *h)
{
	*h = (struct client_hello)CLIENT_HELLO_INIT;
	return feed(h, w->data, w->n, w->n);
}

#define HELLO(w, e) hello(w, e, sizeof(e) - 1)

TEST(extensions_are_read_strictly)
{
	static const struct {
		const char *bytes;
		size_t n;
		int result;
		const char *name;
	} cases[] = {
#define E(s) s, sizeof(s) - 1
		{ E(""), 1, "" },
		{ E("\0\0\0\10\0\6\0\0\3a.b"), 1, "a.b" },
		/* There are GREASE and an unknown extension before and after the name. */
		{ E("\12\12\0\0\0\0\0\10\0\6\0\0\3a.b\132\132\0\1\0"), 1, "a.b" },
		{ E("\377\1\0\1\0"), 1, "" },
		/* The bytes are kept; they are interpreted elsewhere. */
		{ E("\0\0\0\10\0\6\0\0\3a\0b"), 1, "a" },
		/*
		 * Invalid: no name, an empty name, two names, a name of another type, two
		 * extensions.
		 */
		{ E("\0\0\0\0"), -EBADMSG, "" },
		{ E("\0\0\0\2\0\0"), -EBADMSG, "" },
		{ E("\0\0\0\5\0\3\0\0\0"), -EBADMSG, "" },
		{ E("\0\0\0\12\0\10\0\0\1a\0\0\1b"), -EBADMSG, "" },
		{ E("\0\0\0\6\0\4\1\0\1a"), -EBADMSG, "" },
		{ E("\0\0\0\6\0\4\0\0\1a\0\0\0\6\0\4\0\0\1a"), -EBADMSG, "" },
		/* Inconsistent lengths. */
		{ E("\0\0\0\7\0\4\0\0\1a\0"), -EBADMSG, "" },
		{ E("\0\0\0\6\0\3\0\0\1a"), -EBADMSG, "" },
		{ E("\0\0\0\6\0\5\0\0\1a"), -EBADMSG, "" },
		{ E("\0\0\0\6\0\4\0\0\2a"), -EBADMSG, "" },
		{ E("\0\0\0\6\0\4\0\1\1a"), -EBADMSG, "" },
		{ E("\0\0\0\11"), -EBADMSG, "" },
		{ E("\0\0\0"), -EBADMSG, "" },
		{ E("\0"), -EBADMSG, "" },
#undef E
	};
	static struct wire w;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct client_hello h;
		int r;

		hello(&w, cases[i].bytes, cases[i].n);
		r = result(&w, &h);
		if (r != cases[i].result)
			TAP_FAIL("case %zu: %d", i, r);
		if (r == 1)
			STREQ(h.name, cases[i].name);
		client_hello_done(&h);
	}
}

TEST(encrypted_hellos_show_their_outer_name)
{
	static struct wire w;
	struct client_hello h;

	HELLO(&w, "\376\15\0\2\0\1\0\0\0\10\0\6\0\0\3a.b");
	EQ(result(&w, &h), 1);
	EQ(h.ech, true);
	STREQ(h.name, "a.b");
	client_hello_done(&h);
}

TEST(long_names_are_refused)
{
	static struct wire w;
	char extension[9 + 300] = "\0\0";
	struct client_hello h;

	for (size_t n = 254; n <= 257; n++) {
		extension[2] = (char)((n + 5) >> 8);
		extension[3] = (char)(n + 5);
		extension[4] = (char)((n + 3) >> 8);
		extension[5] = (char)(n + 3);
		extension[6] = 0;
		extension[7] = (char)(n >> 8);
		extension[8] = (char)n;
		(void)memset(extension + 9, 'a', n);
		hello(&w, extension, 9 + n);
		EQ(result(&w, &h), n < 256 ? 1 : -EBADMSG);
		client_hello_done(&h);
	}
}

/* Change one byte of a valid message at a time. */
TEST(invalid_client_hellos_are_refused)
{
	static const struct {
		size_t at;
		uint8_t value;
	} changes[] = {
		{ 0, 23 },   /* data */
		{ 0, 'G' },  /* HTTP */
		{ 0, 0x80 }, /* SSL 2 */
		{ 1, 2 },    /* a version */
		{ 5, 2 },    /* another message */
		{ 8, 200 },  /* too short, so that bytes follow it */
		{ 9, 2 },    /* another inner version */
		{ 43, 33 },  /* a session id that is too long */
		{ 45, 3 },   /* half of a cipher suite */
		{ 48, 0 },   /* no compression method */
	};
	static struct wire w;
	struct client_hello h;

	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		char extensions[200] = "\0\25\0\304"; /* padding */

		hello(&w, extensions, sizeof(extensions));
		EQ(result(&w, &h), 1);
		client_hello_done(&h);
		OK(w.data[changes[i].at] != changes[i].value);
		w.data[changes[i].at] = changes[i].value;
		if (result(&w, &h) != -EBADMSG)
			TAP_FAIL("byte %zu", changes[i].at);
		client_hello_done(&h);
	}
}

/* A record that continues after the message is refused, whether its rest has arrived or
 * not. */
TEST(nothing_follows_a_hello_in_its_record)
{
	static struct wire w;
	struct client_hello h;

	HELLO(&w, "\0\0\0\10\0\6\0\0\3a.b");
	EQ(result(&w, &h), 1);
	client_hello_done(&h);
	w.data[4]++;
	EQ(result(&w, &h), -EBADMSG);
	client_hello_done(&h);
	PUT(&w, "\0");
	EQ(result(&w, &h), -EBADMSG);
	client_hello_done(&h);
	/* Another record may follow. */
	w.data[4]--;
	w.data[w.n - 1] = 23;
	h = (struct client_hello)CLIENT_HELLO_INIT;
	EQ(client_hello_feed(&h, w.data, w.n), 1);
	STREQ(h.name, "a.b");
	client_hello_done(&h);
}

TEST(records_and_messages_have_a_maximum_size)
{
	static struct wire w;
	struct client_hello h;

	/* An empty record is refused, and so is one that is too long. */
	w.n = 0;
	PUT(&w, "\26\3\1\0\0");
	EQ(result(&w, &h), -EBADMSG);
	client_hello_done(&h);
	w.n = 0;
	PUT(&w, "\26\3\1\100\1");
	EQ(result(&w, &h), -EBADMSG);
	client_hello_done(&h);
	/* The length of the message exceeds the maximum by one byte. */
	w.n = 0;
	PUT(&w, "\26\3\1\0\4\1\0\177\374");
	EQ(result(&w, &h), 0);
	client_hello_done(&h);
	w.n = 0;
	PUT(&w, "\26\3\1\0\4\1\0\177\375");
	EQ(result(&w, &h), -EMSGSIZE);
	client_hello_done(&h);
	/* With one byte in each record, the number of records exceeds its limit first. */
	w.n = 0;
	PUT(&w, "\26\3\1\0\4\1\0\177\374");
	while (w.n + 6 <= CLIENT_HELLO_WIRE_MAX)
		PUT(&w, "\26\3\1\0\1\0");
	EQ(result(&w, &h), 0);
	client_hello_done(&h);
	PUT(&w, "\26\3\1\0\1\0");
	EQ(result(&w, &h), -EMSGSIZE);
	client_hello_done(&h);
}

TEST_MAIN()
