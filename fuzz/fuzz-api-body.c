/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz-api-body.c - the first byte chooses an operation, the rest is its body */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "api/body.h"
#include "api/v1/ops.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct api_op *op = size > 0 ? &v1_face.ops[data[0] % v1_face.n_ops] : NULL;
	AUTO_BODY struct body body = { 0 }, again = { 0 };
	AUTO_BUF struct buf out = BUF_INIT(1 << 16);
	AUTO_FREE char *text = NULL;
	struct api_error err = { 0 };

	if (!op)
		return 0;
	if (body_read(op, (const char *)data + 1, size - 1, &body, &err) < 0) {
		api_error_write(&err, "v8s4k2n6p3lw", &out);
		text = strndup(out.data, out.len);
		/* Error messages about invalid input must be valid JSON. */
		body.json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
		assert(body.json && !out.failed);
		body.owned = true;
		return 0;
	}
	if (!body.json)
		return 0;
	/* A body that was accepted is accepted again after it was written. */
	text = json_dumps(body.json, JSON_COMPACT);
	assert(text && body_read(op, text, strlen(text), &again, &err) == 0);
	return 0;
}
