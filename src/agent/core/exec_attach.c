/* SPDX-License-Identifier: Apache-2.0 */
/* exec_attach.c - requests about a running exec: attach, read, close its input */
#include <errno.h>

#include "agent/core/agent.h"

void exec_attach_request(int c, const struct proto_attach *msg, int *fds, size_t n_fds)
{
	struct exec *ex = exec_find(msg->exec);
	long r = 0;

	if (!ex)
		r = -ESRCH;
	else if ((msg->flags & PROTO_ATTACH_NOTIFY && n_fds == 0) ||
		 msg->flags & ~(PROTO_ATTACH_NOTIFY | PROTO_ATTACH_HOLD))
		r = -EPROTO;
	else if (msg->flags && ex->journal < 0)
		r = -EINVAL;
	if (r < 0) {
		conn_reply(c, msg->h.seq, r, PROTO_STAGE_REQUEST, -1);
		return;
	}
	ex->hears |= 1U << c;
	if (msg->flags & PROTO_ATTACH_NOTIFY) {
		if (ex->notify[c] >= 0)
			sys_close(ex->notify[c]);
		ex->notify[c] = fds[0];
		fds[0] = -1;
	}
	if (msg->flags & PROTO_ATTACH_HOLD) {
		ex->holds |= 1U << c;
		ex->acked[c] = msg->cursor;
	}
	reply_with(c, msg->h.seq, ex, true);
}

void attach_ack(int c, const struct proto_ack *msg)
{
	struct exec *ex = exec_find(msg->exec);

	if (!ex || !(ex->holds & (1U << c)) || msg->cursor <= ex->acked[c])
		return;
	ex->acked[c] = msg->cursor;
	drain_resume(ex);
}

void attach_close_input(int c, const struct proto_close_input *msg)
{
	struct exec *ex = exec_find(msg->exec);
	long r = 0;

	/* The input of a terminal ends with a character, and the program on the terminal
	 * chooses which. */
	if (!ex)
		r = -ESRCH;
	else if (ex->tty || ex->input < 0)
		r = -EINVAL;
	if (r == 0) {
		sys_close(ex->input);
		ex->input = -1;
	}
	conn_reply(c, msg->h.seq, r, PROTO_STAGE_NONE, -1);
}

bool attach_dispatch(int c, const void *msg, int *fds, size_t n_fds)
{
	switch (((const struct proto_header *)msg)->type) {
	case PROTO_KEEP:
		request_keep(c, msg);
		return true;
	case PROTO_HELLO:
		request_hello(c, msg);
		return true;
	case PROTO_CLOSE_INPUT:
		attach_close_input(c, msg);
		return true;
	case PROTO_ATTACH:
		exec_attach_request(c, msg, fds, n_fds);
		return true;
	case PROTO_ACK:
		attach_ack(c, msg);
		return true;
	default:
		return false;
	}
}
