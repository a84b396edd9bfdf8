/* SPDX-License-Identifier: Apache-2.0 */
/* request.c - the first check of a request, and the greeting, for all agents */
#include <errno.h>

#include "agent/core/agent.h"

bool request_is_sound(int c, size_t size)
{
	/*
	 * Requests with a fixed size; a message of another size is answered like an
	 * unknown one.
	 */
	static const size_t sizes[] = {
		[PROTO_CONFIG] = sizeof(struct proto_config),
		[PROTO_SIGNAL] = sizeof(struct proto_signal),
		[PROTO_OPEN] = sizeof(struct proto_open),
		[PROTO_CONNECT] = sizeof(struct proto_connect),
		[PROTO_KEEP] = sizeof(struct proto_keep),
		[PROTO_HELLO] = sizeof(struct proto_hello),
		[PROTO_CLOSE_INPUT] = sizeof(struct proto_close_input),
		[PROTO_ATTACH] = sizeof(struct proto_attach),
		[PROTO_ACK] = sizeof(struct proto_ack),
		[PROTO_LIST] = sizeof(struct proto_list),
		[PROTO_SCAN] = sizeof(struct proto_scan),
		[PROTO_WATCH] = sizeof(struct proto_watch),
		[PROTO_SAVE] = sizeof(struct proto_save),
		[PROTO_RESTORE] = sizeof(struct proto_save),
		[PROTO_WORKER] = sizeof(struct proto_worker),
		[PROTO_NOTIFY] = sizeof(struct proto_notify),
		[PROTO_UPPER] = sizeof(struct proto_upper),
		[PROTO_NAME_MEMORY] = sizeof(struct proto_save),
		[PROTO_LOWER] = sizeof(struct proto_upper),
	};
	const struct proto_header *h = (const void *)inbox;

	if (size < sizeof(*h))
		return false;
	if (h->version == PROTO_VERSION &&
	    (h->type >= sizeof(sizes) / sizeof(sizes[0]) || sizes[h->type] == 0 ||
	     sizes[h->type] == size))
		return true;
	conn_reply(c, h->seq, -EPROTO, PROTO_STAGE_REQUEST, -1);
	return false;
}

/* Without a socket of the sandbox, no client could connect again, so the sandbox is not
 * kept. */
void request_keep(int c, const struct proto_keep *msg)
{
	init.kept |= init.listener >= 0;
	conn_reply(c, msg->h.seq, init.kept ? 0 : -EOPNOTSUPP, PROTO_STAGE_NONE, -1);
}

void request_hello(int c, const struct proto_hello *msg)
{
	struct proto_welcome out = {
		.h = { .version = PROTO_VERSION,
		       .type = PROTO_WELCOME,
		       .seq = msg->h.seq },
		.flags = (init.kept ? PROTO_WELCOME_KEPT : 0) |
			 (init.saved ? PROTO_WELCOME_SAVED : 0) |
			 (init.gates ? PROTO_WELCOME_GATES : 0) |
			 (init.workers ? PROTO_WELCOME_WORKERS : 0) |
			 (init.files ? PROTO_WELCOME_FILES : 0),
		.last_exec = init.last_exec,
		.oom_kills = init.oom_kills,
	};

	for (unsigned i = 0; i < init.n_execs; i++)
		out.n_execs += init.execs[i].used;
	init.conns[c].all = msg->flags & PROTO_HELLO_ALL;
	conn_send(c, &out, sizeof(out), NULL, 0);
}
