/* SPDX-License-Identifier: Apache-2.0 */
/* files_hooks.c - files, as a module of the service */
#include "service/files/internal.h"

static int files_hooks_open(struct service *s, const struct service_options *o,
			    struct warren_error *err UNUSED)
{
	service_files(s)->watches.limit = o->watches_max ? o->watches_max : 128;
	service_files(s)->watched.limit = o->watched_max ? o->watched_max : 8192;
	return 0;
}

const struct service_module files_hooks = {
	.number = MODULE_FILES,
	.service_size = sizeof(struct service_files),
	.sandbox_size = sizeof(struct sandbox_files),
	.open = files_hooks_open,
	.gone = files_sandbox_gone,
	.held = files_held,
};
