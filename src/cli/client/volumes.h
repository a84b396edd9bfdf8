/* SPDX-License-Identifier: Apache-2.0 */
/* volumes.h - volumes that options of a new sandbox name */
#ifndef CLI_CLIENT_VOLUMES_H
#define CLI_CLIENT_VOLUMES_H

#include "cli/client/client.h"
#include "cli/values.h"

/*
 * Create the volumes of @mounts that do not exist, as docker does, with the service's
 * default size; say so on stderr for the command @name.
 */
int volumes_ensure(struct client *c, const char *name, const struct mount_list *mounts,
		   struct warren_error *err) MUST_CHECK;

#endif /* CLI_CLIENT_VOLUMES_H */
