/* SPDX-License-Identifier: Apache-2.0 */
/* hooks.c - call a hook of all modules, and wait until each of them has finished */
#include "service/core/hooks.h"

#include <errno.h>
#include <stdlib.h>

#include "service/core/internal.h"

struct hooks_op {
	size_t left; /* modules that have not finished, plus one for the caller */
	struct warren_error err; /* the first error */
	service_done_fn done;
	void *ctx;
};

static void hooks_on_done(void *ctx, int r, const struct warren_error *err)
{
	struct hooks_op *op = ctx;

	if (r < 0 && !op->err.code && err)
		op->err = *err;
	else if (r < 0 && !op->err.code)
		(void)error_errno(&op->err, -r, "prepare the sandbox");
	if (--op->left > 0)
		return;
	op->done(op->ctx, -op->err.code, &op->err);
	free(op);
}

void hooks_await(struct sandbox *sandbox, size_t hook, service_done_fn done, void *ctx)
{
	const struct service_module *const *modules = sandbox->service->hooks;
	struct warren_error err = WARREN_ERROR_INIT;
	struct hooks_op *op = malloc(sizeof(*op));

	if (!op) {
		done(ctx, error_errno(&err, ENOMEM, "prepare the sandbox"), &err);
		return;
	}
	*op = (struct hooks_op){
		.left = 1, .err = WARREN_ERROR_INIT, .done = done, .ctx = ctx
	};
	for (size_t i = 0; modules[i]; i++) {
		const service_hook_fn *fn =
			(const void *)((const char *)modules[i] + hook);

		if (!*fn)
			continue;
		op->left++;
		(*fn)(sandbox, hooks_on_done, op);
	}
	hooks_on_done(op, 0, NULL);
}
