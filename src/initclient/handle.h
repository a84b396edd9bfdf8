/* SPDX-License-Identifier: Apache-2.0 */
/* handle.h - common members of every backend's sandboxes and execs */
#ifndef INITCLIENT_HANDLE_H
#define INITCLIENT_HANDLE_H

#include "base/error.h"
#include "base/id.h"

#define BACKEND_ENFORCED_MAX 24

/* Every backend's sandbox begins with this. */
struct backend_sandbox {
	struct backend_sandbox *next; /* backend/left.h */
	char id[ID_LEN + 1];
	size_t n_enforced;
	struct warren_enforcement enforced[BACKEND_ENFORCED_MAX];
	size_t n_steps;
	struct warren_step *steps;
	char **entrypoint, **cmd; /* values from the image; NULL: not set there */
	bool durable;             /* closing the engine calls release(), not destroy() */
	bool kills_apart;         /* stats() lacks the OOM kills of ended execs */
};

/* Every backend's exec begins with this; -1: no such descriptor. */
struct backend_exec {
	/*
	 * The caller's ends of the exec's streams; [0] may be a terminal, [3] is the
	 * command pipe.
	 */
	int fd[4];
	int output_fd; /* an eventfd, written when the journal grows */
};

#endif /* INITCLIENT_HANDLE_H */
