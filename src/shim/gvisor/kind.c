/* SPDX-License-Identifier: Apache-2.0 */
/* kind.c - the descriptor of the backend `gvisor` */
#include "backend/kind.h"
#include "base/macro.h"
#include "warren.h"

static const char *const runsc_platforms[] = { "systrap", "ptrace", "kvm", NULL };

static const struct backend_setting gvisor_settings[] = {
	{ .name = "runsc",
	  .type = BACKEND_SETTING_PATH,
	  .example = "/usr/bin/runsc",
	  .help = "The program runsc" },
	{ .name = "platform",
	  .type = BACKEND_SETTING_CHOICE,
	  .choices = runsc_platforms,
	  .example = "ptrace",
	  .help = "How gVisor intercepts system calls" },
};

const struct backend_kind backend_kind_gvisor = {
	.name = "gvisor",
	.help = "A kernel in user space for each sandbox, run by runsc",
	.tier = TIER_GVISOR,
	.offered = true,
	.network = true,
	.policies = true,
	.volumes = true,
	.here = true,
	.hibernates = true,
	.memory = true,
	.snapshots = true,
	.images = BACKEND_IMAGES_OURS,
	.limits = WARREN_LIMIT_MEMORY | WARREN_LIMIT_CPU | WARREN_LIMIT_PIDS |
		  WARREN_LIMIT_DISK | WARREN_LIMIT_NOFILE,
	.settings = gvisor_settings,
	.n_settings = ARRAY_SIZE(gvisor_settings),
};
