/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devcontainer.h - the part of devcontainer.json that Warren honours
 *
 * Honoured: image, build (dockerfile, context, target, args), containerEnv, remoteEnv,
 * containerUser, remoteUser, workspaceFolder, mounts of the type tmpfs, forwardPorts,
 * onCreateCommand, updateContentCommand, postCreateCommand and postStartCommand. All
 * other properties become notes of the plan, by name.
 *
 * Variables are replaced in all texts. ${localEnv:NAME} shows only what the user has
 * allowed, because the environment of the host may contain secrets.
 */
#ifndef SETUP_DEVCONTAINER_H
#define SETUP_DEVCONTAINER_H

#include <jansson.h>

#include "setup/plan.h"

/*
 * Read the first devcontainer.json of the project into @p. Returns 0 if there is none, 1
 * if there is one.
 */
int devcontainer_read(int project_fd, const struct setup_options *o, struct setup_plan *p,
		      struct warren_error *err) MUST_CHECK;

/* What variables stand for. */
struct devcontainer_vars {
	const struct setup_options *o;
	struct setup_plan *plan; /* gets notes; .env is what ${containerEnv:...} shows */
	const char *inside;      /* the project's path inside; NULL: not known yet */
	char id[64];             /* ${devcontainerId} */
};

/* Replace the variables in @text; the caller frees the result. NULL: no memory. */
char *devcontainer_expand(const struct devcontainer_vars *given,
			  const char *text) MUST_CHECK;
/* Compute ${devcontainerId} of the project with this configuration. */
void devcontainer_id(const char *project, const char *config, char ret[64]);

/* Add the step of the property @name: a string, a list of words, or several by name. */
int devcontainer_command(const struct devcontainer_vars *v, const char *name,
			 const json_t *value, bool start,
			 struct warren_error *err) MUST_CHECK;

#endif /* SETUP_DEVCONTAINER_H */
