/* SPDX-License-Identifier: Apache-2.0 */
/*
 * permit.c - a waiting request starts only while its token is valid
 *
 * A token is checked when a request arrives. Some requests wait after that: for a paused
 * sandbox to wake, for the jobs of a sandbox before it (sandbox_job.h), for the turn of a
 * session's command. A command that waits can even outlive its connection. So the service
 * notes the token of the request that is being handled (service_permit()); a request that
 * has to wait keeps a copy, and calls permit_check() when its turn comes.
 */
#include <errno.h>
#include <stdio.h>

#include "service/core/internal.h"

void service_permit(struct service *s, const char *token, int64_t expires_at)
{
	s->permit = (struct permit){ .expires_at = expires_at };
	if (token)
		(void)snprintf(s->permit.token, sizeof(s->permit.token), "%s", token);
}

int permit_check(struct service *s, const struct permit *p, struct warren_error *err)
{
	struct warren_error why = WARREN_ERROR_INIT;

	if (!p->token[0])
		return 0;
	if (p->expires_at && p->expires_at <= service_time())
		return error_set(err, EKEYEXPIRED,
				 "the token of this request expired while the request "
				 "waited, and nothing was done");
	/* A token that cannot be looked up is treated as invalid. */
	if (db_check_token(s->db, p->token, &why) < 0)
		return error_set(err, EKEYREVOKED,
				 "the token of this request was revoked while the "
				 "request waited, and nothing was done");
	return 0;
}
