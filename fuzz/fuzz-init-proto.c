/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-init-proto.c - whatever an init says: taken as a message of the protocol, or an
 * error
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"
#include "initclient/initclient.h"

#define MESSAGES_MAX 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Messages of a length byte and as many bytes; an odd length has a descriptor along. */
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

/*
 * Whatever it says it gives, each descriptor is taken once, and none that did not come.
 */
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

/* Whatever entries it lists, their texts are in the message, and names are names. */
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

/* One that says all this, and has hung up: our end of the connection. */
static int hear_from(const uint8_t *data, size_t size, int *ret_theirs)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		abort();
	/* What was left open would be missed here: each pair gets the same numbers. */
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
	 * It talks unasked; it is asked; and it is asked before it has said that it is
	 * up.
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
