/* SPDX-License-Identifier: Apache-2.0 */
/* kind.c - the descriptor of the backend `docker` */
#include "backend/kind.h"
#include "base/macro.h"
#include "warren.h"

static const char *const docker_pulls[] = { "missing", "never", "always", NULL };

static const struct backend_setting docker_settings[] = {
	{ .name = "socket",
	  .type = BACKEND_SETTING_PATH,
	  .example = "/run/docker.sock",
	  .help = "Socket of the API of Docker or Podman" },
	{ .name = "image",
	  .type = BACKEND_SETTING_TEXT,
	  .example = "'debian:12'",
	  .help = "Image of sandboxes whose request names none" },
	{ .name = "pull",
	  .type = BACKEND_SETTING_CHOICE,
	  .choices = docker_pulls,
	  .example = "missing",
	  .help = "When the daemon pulls an image from its registry" },
	{ .name = "archives",
	  .type = BACKEND_SETTING_PATH,
	  .example = "/srv/images",
	  .help = "Directory of archives to load missing images from: debian:12.tar, "
		  "with _ for each / in the name" },
	{ .name = "timeout",
	  .type = BACKEND_SETTING_SECONDS,
	  .example = "60",
	  .example_hidden = true,
	  .help = "Maximum seconds to wait for a response from the daemon (default: 50)" },
};

const struct backend_kind backend_kind_docker = {
	.name = "docker",
	.help = "Containers of Docker, or of Podman through its compatible socket",
	.tier = TIER_CONTAINER,
	.offered = true,
	.network = true,
	.policies = true,
	.volumes = true,
	.trusts = true,
	.hibernates = true,
	.snapshots = true,
	.daemon = true,
	.images = BACKEND_IMAGES_THEIRS,
	.limits = WARREN_LIMIT_MEMORY | WARREN_LIMIT_CPU | WARREN_LIMIT_PIDS |
		  WARREN_LIMIT_DISK | WARREN_LIMIT_NOFILE,
	.settings = docker_settings,
	.n_settings = ARRAY_SIZE(docker_settings),
};
