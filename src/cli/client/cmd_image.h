/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_image.h - shared by the commands for the images of a service */
#ifndef CLI_CLIENT_CMD_IMAGE_H
#define CLI_CLIENT_CMD_IMAGE_H

#include "cli/command.h"

/* cmd_image_archive.c */
extern const struct command remote_save, remote_load, remote_tag, remote_push;
/* cmd_image_build.c */
extern const struct command remote_build;

#endif /* CLI_CLIENT_CMD_IMAGE_H */
