/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawn.h - an exec between its request and its process
 *
 * spawn.c reads the request and puts the streams in place, for whoever keeps execs and
 * journals; what the process is and how it is known to have started is exec_child.c's.
 */
#ifndef AGENT_CORE_SPAWN_H
#define AGENT_CORE_SPAWN_H

#include "agent/core/agent.h"

struct plan {
	const struct proto_spawn *msg;
	const char *cwd;
	char **argv;
	char **env;
	int stdio[3];
	int tty;                      /* slave of the pty, -1: none */
	int extra[PROTO_CONTROL_MAX]; /* -1: none */
	int gate;                     /* -1: none */
	int theirs[6];                /* ends of pipes that are the child's alone */
	int n_theirs;
	int own[PROTO_ROLE_MAX]; /* where to join the exec's own cgroups */
	int n_own;
	int report; /* of the child: where it says what failed */
	enum proto_stage stage;
};

static inline bool spawn_has_control(const struct proto_spawn *msg)
{
	return msg->control[0] || msg->control[1] || msg->control[2];
}

/* The answer to the request that is @ex, and to who has its journal: it did not start. */
void spawn_failed(struct exec *ex, long error, enum proto_stage stage);

/* exec_child.c */
/*
 * Move ourselves into cgroups: "0" is one thread, which takes no global lock of the
 * kernel's.
 */
long spawn_join(const int *fds, int n);
/* All of init's descriptors but those in @keep, which becomes sorted. */
long spawn_close_others(int *keep, int n);

#endif /* AGENT_CORE_SPAWN_H */
