/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz-init-proto.c - any bytes from an init are a valid message, or an error */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "initclient/initclient.h"

#define MESSAGES_MAX 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Send messages: each is a length byte and that many bytes; an odd length comes with a
 * descriptor. */
static void babble(int sock, const uint8_t *data, size_t size)
{
	for (int i = 0; i < MESSAGES_MAX && size > 0; i++) {
		size_t n = data[0] < size ? data[0] : size - 1;

		data++;
		size--;
		(void)fd_send(sock, data, n, &sock, n % 2);
		data += n;
		size -= n;
	}
}

/* Check that each descriptor is taken at most once, and only if it arrived. */
static void check_answer(struct init_reply *a, uint32_t seq)
{
	struct warren_exec_spec spec = { .argv = (const char *[]){ "x", NULL } };
	struct warren_error err = WARREN_ERROR_INIT;
	size_t came = a->n_fds, taken = 0;

	if ((a->m.h.type != PROTO_REPLY && a->m.h.type != PROTO_WELCOME) ||
	    a->m.h.seq != seq || (a->m.h.type == PROTO_WELCOME && came > 0))
		abort();
	if (a->m.h.type != PROTO_REPLY)
		return;
	if (reply_code(&a->m.reply) < 0)
		abort();
	if (reply_code(&a->m.reply) != 0 &&
	    reply_explain(a, &spec, "/", &err) != -err.code)
		abort();
	for (uint32_t bit = PROTO_GIVES_INPUT; bit <= PROTO_GIVES_COMMAND; bit <<= 1) {
		for (int i = 0; i < 2; i++) {
			int fd = init_reply_take(a, bit);

			if (fd >= 0) {
				(void)close(fd);
				taken++;
			}
		}
	}
	if (taken > came)
		abort();
}

/* Check that the texts of all entries are within the message, and that names are
 * valid. */
static void check_entries(const uint8_t *data, size_t size)
{
	const char *entries = (const char *)data + sizeof(struct proto_entries);
	struct proto_found found;
	struct proto_header h;
	size_t at = 0;

	if (proto_check(data, size) < 0)
		return;
	(void)memcpy(&h, data, sizeof(h));
	if (h.type != PROTO_ENTRIES)
		return;
	size -= sizeof(struct proto_entries);
	while (proto_next(entries, size, &at, &found) == 1)
		if (at > size || strlen(found.name) != found.is.name_size ||
		    strlen(found.link) != found.is.link_size || strchr(found.name, '/') ||
		    strcmp(found.name, "..") == 0)
			abort();
}

/* Create an init that sends all this and closes its connection; return the client's
 * end. */
static int hear_from(const uint8_t *data, size_t size, int *ret_theirs)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		abort();
	/* If descriptors were left open, the numbers of new ones would grow. */
	if (ends[0] > 64 || ends[1] > 64)
		abort();
	babble(ends[1], data, size);
	(void)shutdown(ends[1], SHUT_WR);
	*ret_theirs = ends[1];
	return ends[0];
}

static void check_pump(struct initclient_sandbox *sandbox)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int r = client_pump(sandbox, 0, &err);

	if (r < 0 && err.code != -r)
		abort();
}

static void check_ask(struct initclient_sandbox *sandbox)
{
	struct proto_signal msg = { .h = { .type = PROTO_SIGNAL }, .exec = 1, .sig = 15 };
	struct warren_error err = WARREN_ERROR_INIT;
	struct init_reply a = { 0 };
	int r = client_ask(sandbox, &msg, sizeof(msg), -1, &a, &err);

	if (r > 0 || (r < 0 && (err.code != -r || a.n_fds > 0)))
		abort();
	if (r == 0)
		check_answer(&a, sandbox->seq);
	init_reply_done(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (proto_check(data, size) == 0 && size < sizeof(struct proto_header))
		abort();
	check_entries(data, size);
	/*
	 * Test messages without a request, with a request, and with a request before the
	 * init is ready.
	 */
	for (int i = 0; i < 3; i++) {
		struct initclient_exec ex = {
			.id = 1, .journal = -1, .poll = -1, .ready = -1
		};
		struct initclient_sandbox sandbox = { .execs = &ex, .ready = i < 2 };
		int theirs;

		sandbox.control = hear_from(data, size, &theirs);
		(i == 0 ? check_pump : check_ask)(&sandbox);
		(void)close(sandbox.control);
		(void)close(theirs);
	}
	return 0;
}
