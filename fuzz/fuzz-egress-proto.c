/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-egress-proto.c - any bytes as a message to or from warren-egress
 *
 * A message that passes is complete: its strings and rows end within it. The same bytes
 * are also classified as the first bytes of a connection: a longer prefix never changes a
 * decision that was made.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "egress/first.h"
#include "proto/egress_proto.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_event(const struct egress_header *h, size_t size, size_t fds)
{
	const struct egress_denied *d = (const void *)h;
	const struct egress_usage_report *u = (const void *)h;
	const struct egress_reply *r = (const void *)h;

	if (h->type == EGRESS_DENIED)
		assert(sizeof(*d) + strlen(d->text) + 1 == size && id_valid(d->id));
	for (uint32_t i = 0; h->type == EGRESS_USAGE && i < u->n; i++)
		assert(id_valid(u->rows[i].id));
	if (h->type == EGRESS_REPLY)
		assert(strlen(r->err.msg) < sizeof(r->err.msg) &&
		       sizeof(*r) + (fds ? 0 : r->size) == size);
}

/* Check that more bytes do not change a decision. */
static void check_first(const char *data, size_t size, bool wary)
{
	enum first_kind kind = FIRST_MORE;

	for (size_t n = 0; n <= size && n < 256; n++) {
		enum first_kind next = first_classify(data, n, wary);

		assert(kind == FIRST_MORE || next == kind);
		kind = next;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Align the data like a message, without spare bytes after it. */
	struct egress_request *msg = malloc(size > 0 ? size : 1);

	assert(msg);
	if (size > 0)
		(void)memcpy(msg, data, size);
	/* The seeds do not change with the version. */
	if (size >= sizeof(msg->h) && msg->h.version == 1)
		msg->h.version = EGRESS_VERSION;
	for (size_t fds = 0; fds <= EGRESS_FDS_MAX; fds++)
		if (egress_proto_check_request(msg, size, fds) == 0)
			assert(msg->h.type < EGRESS_REQUEST_MAX &&
			       (msg->h.type == EGRESS_PING || id_valid(msg->id)));
	for (size_t fds = 0; fds <= 1; fds++)
		if (egress_proto_check_event(msg, size, fds) == 0)
			check_event(&msg->h, size, fds);
	check_first((const char *)data, size, false);
	check_first((const char *)data, size, true);
	free(msg);
	return 0;
}
