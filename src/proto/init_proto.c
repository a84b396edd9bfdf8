/* SPDX-License-Identifier: Apache-2.0 */
/* init_proto.c - the engine's first check of a message from an init */
#include "proto/init_proto.h"

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
	struct proto_entries e;
	struct proto_header h;

	if (size < sizeof(h))
		return -EPROTO;
	(void)memcpy(&h, data, sizeof(h));
	if (h.version != PROTO_VERSION)
		return -EPROTO;
	if (h.type == PROTO_ENTRIES) {
		if (size < sizeof(e))
			return -EPROTO;
		(void)memcpy(&e, data, sizeof(e));
		return e.size <= PROTO_ENTRIES_MAX && size == sizeof(e) + e.size
			       ? 0
			       : -EPROTO;
	}
	if (h.type == PROTO_REPLY && size > sizes[PROTO_REPLY])
		return size <= sizes[PROTO_REPLY] + PROTO_WHY_MAX &&
				       ((const char *)data)[size - 1] == '\0'
			       ? 0
			       : -EPROTO;
	if (h.type >= sizeof(sizes) / sizeof(sizes[0]) || sizes[h.type] != size)
		return -EPROTO;
	return 0;
}

static int init_proto_is_name(const char *name, size_t size)
{
	if (memchr(name, '/', size) || strlen(name) != size)
		return 0;
	return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

int proto_next(const char *data, size_t size, size_t *at, struct proto_found *ret)
{
	size_t left = size - *at, whole;

	if (left == 0)
		return 0;
	if (left < sizeof(ret->is))
		return -EPROTO;
	data += *at;
	(void)memcpy(&ret->is, data, sizeof(ret->is));
	whole = sizeof(ret->is) + ret->is.name_size + 1U + ret->is.link_size + 1U;
	whole = (whole + 7) & ~(size_t)7;
	if (whole > left)
		return -EPROTO;
	ret->name = data + sizeof(ret->is);
	ret->link = ret->name + ret->is.name_size + 1;
	if (ret->name[ret->is.name_size] != '\0' ||
	    ret->link[ret->is.link_size] != '\0' ||
	    !init_proto_is_name(ret->name, ret->is.name_size) ||
	    strlen(ret->link) != ret->is.link_size)
		return -EPROTO;
	*at += whole;
	return 1;
}
