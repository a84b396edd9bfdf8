/* SPDX-License-Identifier: Apache-2.0 */
/* control.c - results on a descriptor that the command does not have */
#include <inttypes.h>

#include "session/session_internal.h"

void control_ask(struct session *s, struct buf *out)
{
	script_add(out, s, ";{ @e=$? @n=");
	buf_printf(out, "%" PRIu64, s->serial);
	script_add(out, s, ";\"$@k\" eval \"$@r\";} 2>/dev/null\n");
}

int control_on_bytes(struct session *s, enum session_stream stream, const char *data,
		     size_t n, struct warren_error *err)
{
	if (stream != SESSION_RESULTS) {
		session_output(s, stream, data, n);
		return 0;
	}
	while (n > 0) {
		ssize_t used = session_collect(s, data, n, err);
		int r = used < 0 ? (int)used : 0;

		if (r == 0 && s->have_record)
			r = session_take_record(s, err);
		if (r < 0)
			return r;
		data += used;
		n -= (size_t)used;
	}
	return 0;
}
