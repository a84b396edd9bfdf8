/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-warden-proto.c - any bytes as a request to the warden, which trusts nothing in it
 *
 * A request that passes is complete: all its strings end within it, and it is the same
 * after it was written again.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "proto/warden_proto.h"
#include "warren.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_create(const struct warden_proto_create *msg, size_t size)
{
	static const char *env[WIRE_ENV_MAX + 1];
	static struct warren_mount mounts[WIRE_MOUNTS_MAX];
	AUTO_BUF struct buf again = BUF_INIT(WIRE_MESSAGE_MAX);
	const struct warden_proto_create *second;
	struct warren_spec spec = { 0 };

	warden_proto_get_create(msg, &spec, env, mounts);
	assert(spec.n_mounts == msg->n_mounts && !env[msg->n_env]);
	for (size_t i = 0; i < spec.n_mounts; i++)
		assert(mounts[i].target);
	if (warden_proto_put_create(&again, msg->h.backend, msg->id, &spec) < 0)
		return;
	assert(warden_proto_check(again.data, again.len) == 0);
	second = (const struct warden_proto_create *)(const void *)again.data;
	assert(strcmp(second->id, msg->id) == 0 &&
	       memcmp(second->limits, msg->limits, sizeof(msg->limits)) == 0);
	assert(second->n_env == msg->n_env && second->n_mounts == msg->n_mounts);
	/* The source of a tmpfs is ignored, so the strings are the same without it. */
	for (size_t i = 0; i < spec.n_mounts; i++)
		if (!mounts[i].source)
			return;
	assert(again.len == size &&
	       memcmp(second->strings, msg->strings, msg->strings_size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct warden_proto_create *msg;

	if (size > WIRE_MESSAGE_MAX)
		return 0;
	/* Align the data like a message, without spare bytes after it. */
	msg = malloc(size > 0 ? size : 1);
	assert(msg);
	if (size > 0)
		(void)memcpy(msg, data, size);
	if (warden_proto_check(msg, size) == 0) {
		const char *id = warden_proto_id(msg);

		assert(!id || id_valid(id));
		assert(strlen(msg->h.backend) < WIRE_BACKEND_SIZE);
		if (msg->h.type == WIRE_CREATE)
			check_create(msg, size);
	}
	free(msg);
	return 0;
}
