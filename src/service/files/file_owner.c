/* SPDX-License-Identifier: Apache-2.0 */
/* file_owner.c - find the ids of a user of the sandbox, who is to own a file */
#include <errno.h>

#include "service/files/files.h"
#include "service/files/internal.h"

struct owning {
	void (*fn)(void *ctx, uint32_t uid, uint32_t gid, const struct warren_error *err);
	void *ctx;
};

static void file_owner_on_found(void *ctx, const struct initclient_user *user,
				const struct warren_error *err)
{
	struct owning o = *(struct owning *)ctx;

	free(ctx);
	o.fn(o.ctx, user ? user->uid : 0, user ? user->gid : 0, user ? NULL : err);
}

void files_find_owner(struct files *f, const char *user,
		      void (*fn)(void *ctx, uint32_t uid, uint32_t gid,
				 const struct warren_error *err),
		      void *ctx)
{
	struct sandbox *sandbox = files_sandbox(f);
	struct owning *o = sandbox ? malloc(sizeof(*o)) : NULL;
	struct warren_error err = WARREN_ERROR_INIT;

	if (!o) {
		(void)error_set(&err, sandbox ? ENOMEM : ESTALE, "the sandbox is gone");
		fn(ctx, 0, 0, &err);
		return;
	}
	*o = (struct owning){ fn, ctx };
	sandbox_find_user(sandbox, user, file_owner_on_found, o);
}
