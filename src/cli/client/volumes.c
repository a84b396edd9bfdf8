/* SPDX-License-Identifier: Apache-2.0 */
/* volumes.c - create the volumes that options of a new sandbox name */
#include "cli/client/volumes.h"

#include <stdio.h>

#include "cli/client/commands.h"

static int volumes_ensure_one(struct client *c, const char *command, const char *volume,
			      struct warren_error *err)
{
	AUTO_JSON json_t *body = NULL;
	char path[128];
	int r;

	(void)snprintf(path, sizeof(path), "/v1/volumes/%s", volume);
	r = client_call(c, "GET", path, NULL, NULL, err);
	if (r == 0 || !client_said(c, "volume_not_found"))
		return r;
	*err = (struct warren_error)WARREN_ERROR_INIT;
	body = json_pack("{ss}", "name", volume);
	r = client_call(c, "POST", "/v1/volumes", body, NULL, err);
	/* Another command may have created it in the meantime. */
	if (r < 0 && client_said(c, "name_in_use")) {
		*err = (struct warren_error)WARREN_ERROR_INIT;
		return 0;
	}
	if (r == 0)
		message_say(command, "created the volume '%s'", volume);
	return r;
}

int volumes_ensure(struct client *c, const char *name, const struct mount_list *mounts,
		   struct warren_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < mounts->n; i++)
		if (mounts->v[i].volume)
			r = volumes_ensure_one(c, name, mounts->v[i].source, err);
	return r;
}
