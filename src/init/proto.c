/* SPDX-License-Identifier: Apache-2.0 */
/* proto.c - the engine's first look at a message from an init */
#include "init/proto.h"

#include <errno.h>
#include <string.h>

int proto_check(const void *data, size_t size)
{
	static const size_t sizes[] = {
		[PROTO_READY] = sizeof(struct proto_ready),
		[PROTO_REPLY] = sizeof(struct proto_reply),
		[PROTO_EXITED] = sizeof(struct proto_exited),
		[PROTO_WELCOME] = sizeof(struct proto_welcome),
	};
	struct proto_header h;

	if (size < sizeof(h))
		return -EPROTO;
	(void)memcpy(&h, data, sizeof(h));
	if (h.version != PROTO_VERSION)
		return -EPROTO;
	if (h.type >= sizeof(sizes) / sizeof(sizes[0]) || sizes[h.type] != size)
		return -EPROTO;
	return 0;
}
