/* SPDX-License-Identifier: Apache-2.0 */
/*
 * modules.c - the modules of the service, in the order in which the core calls their
 * hooks
 */
#include "service/modules.h"

#include "service/code/code.h"
#include "service/exec/exec.h"
#include "service/files/files.h"
#include "service/network/network.h"
#include "service/session/session.h"
#include "service/snapshot/snapshot.h"
#include "service/template/template.h"
#include "service/volume/volume.h"

const struct service_module *const service_modules[] = {
	&exec_hooks,
	&session_hooks, /* sessions are execs */
	&files_hooks,
	&code_hooks, /* code runs use execs and files */
	&network_hooks,
	&volume_hooks,
	&snapshot_hooks,
	&template_hooks, /* builds make snapshots */
	NULL,
};
