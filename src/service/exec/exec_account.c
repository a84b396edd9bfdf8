/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec_account.c - the user of an exec, and the name of its account if the exec has it as
 * USER and LOGNAME
 *
 * Nothing knows the name of the sandbox's user. It is looked up once, by its number, when
 * an exec needs it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/exec/exec.h"
#include "service/exec/internal.h"

struct account_op {
	struct sandbox *sandbox;
	exec_account_fn fn;
	void *ctx;
};

/* The ids are those that the sandbox was created with; only the name is new. */
static void exec_account_end(struct account_op *op)
{
	struct initclient_user user = op->sandbox->is.base.user;

	(void)strcpy(user.name, sandbox_execs(op->sandbox)->account);
	op->fn(op->ctx, &user, NULL);
}

static void exec_account_on_user(void *ctx, const struct initclient_user *user,
				 const struct warren_error *failure UNUSED)
{
	struct account_op *op = ctx;
	struct sandbox_execs *execs = sandbox_execs(op->sandbox);

	if (user)
		(void)strcpy(execs->account, user->name);
	else
		(void)snprintf(execs->account, sizeof(execs->account), "%u",
			       op->sandbox->is.base.user.uid);
	exec_account_end(op);
	free(op);
}

void exec_account_find(struct sandbox *sandbox, const struct exec_start *start,
		       exec_account_fn fn, void *ctx)
{
	struct account_op now = { sandbox, fn, ctx }, *op;
	struct warren_error err = WARREN_ERROR_INIT;
	char number[16];

	if (!start->account || start->user) {
		sandbox_find_user(sandbox, start->user, fn, ctx);
		return;
	}
	if (sandbox_execs(sandbox)->account[0]) {
		exec_account_end(&now);
		return;
	}
	op = malloc(sizeof(*op));
	if (!op) {
		(void)error_errno(&err, ENOMEM, "look up the user");
		fn(ctx, NULL, &err);
		return;
	}
	*op = now;
	(void)snprintf(number, sizeof(number), "%u", sandbox->is.base.user.uid);
	sandbox_find_user(sandbox, number, exec_account_on_user, op);
}
