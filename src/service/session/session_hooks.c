/* SPDX-License-Identifier: Apache-2.0 */
/* session_hooks.c - sessions, as a module of the service */
#include "service/session/internal.h"
#include "service/session/look.h"

#define SCREENS_MAX (512ULL << 20) /* maximum number of bytes, see session_terminal.c */

static int session_hooks_open(struct service *s, const struct service_options *o UNUSED,
			      struct warren_error *err)
{
	int r = look_open(s);

	service_sessions(s)->screens.limit = SCREENS_MAX;
	if (r < 0)
		return error_errno(err, -r, "start the service");
	return session_marker_key_open(s, err);
}

const struct service_module session_hooks = {
	.number = MODULE_SESSION,
	.service_size = sizeof(struct service_sessions),
	.sandbox_size = sizeof(struct sandbox_sessions),
	.open = session_hooks_open,
	.close = look_close,
	.restore = session_restore_all,
	.gone = session_sandbox_gone,
};
