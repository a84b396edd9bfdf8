/* SPDX-License-Identifier: Apache-2.0 */
/* built.c - snapshots whose images warren-image(1) builds */
#include <errno.h>

#include "service/snapshot/internal.h"

int snapshot_reserve(struct service *s, const char *tenant,
		     const struct snapshot_request *request, struct snapshot_op **ret,
		     struct warren_error *err)
{
	struct snapshot_op *op = snapshot_op_new(s, tenant, request->labels);
	int r;

	if (!op)
		return error_errno(err, ENOMEM, "make a snapshot");
	id_make(op->id);
	op->quota = request->quota;
	op->transient = request->transient;
	op->has_turn = true;
	r = snapshot_op_record(op, err);
	if (r < 0) {
		snapshot_op_free(op);
		return r;
	}
	*ret = op;
	return 0;
}

const char *snapshot_op_id(const struct snapshot_op *op)
{
	return op->id;
}

void snapshot_finish(struct snapshot_op *op, const char *json, size_t size,
		     snapshot_done_fn done, void *ctx)
{
	const struct warren_error none = WARREN_ERROR_INIT;

	op->done = done;
	op->ctx = ctx;
	snapshot_on_image(op, 0, json, size, &none);
}

struct snapshot_op *snapshot_abandon(struct snapshot_op *op)
{
	const struct warren_error why = { .code = ECANCELED };

	if (op)
		snapshot_op_fail(op, &why);
	return NULL;
}
