/* SPDX-License-Identifier: Apache-2.0 */
/* handle.h - the beginning of the sandboxes and execs of every backend */
#ifndef INITCLIENT_HANDLE_H
#define INITCLIENT_HANDLE_H

#include "base/error.h"
#include "base/id.h"

#define BACKEND_ENFORCED_MAX 24

/* What every backend's sandbox begins with. */
struct backend_sandbox {
	char id[ID_LEN + 1];
	size_t n_enforced;
	struct warren_enforcement enforced[BACKEND_ENFORCED_MAX];
	size_t n_steps;
	struct warren_step *steps;
	char **entrypoint, **cmd; /* of the image; NULL: it says nothing */
	bool durable;     /* release() instead of destroy() when the engine is closed */
	bool kills_apart; /* its stats() lacks what was killed for memory in ended execs
			   */
};

/* What every backend's exec begins with; -1 where there is none. */
struct backend_exec {
	int fd[4];     /* our ends of its streams; the terminal is fd[0], 3 pokes it */
	int output_fd; /* an eventfd: the journal grew */
};

#endif /* INITCLIENT_HANDLE_H */
