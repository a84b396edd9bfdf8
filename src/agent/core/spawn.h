/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawn.h - an exec between its request and its process
 *
 * spawn.c reads the request and puts the streams in place, for every agent with execs and
 * journals; exec_child.c creates the process and detects its start.
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

/* Answer the request for @ex, and write to its journal, that it did not start. */
void spawn_failed(struct exec *ex, long error, enum proto_stage stage);

/* exec_child.c */
/*
 * Move the calling thread into cgroups, by writing "0": this takes no global lock of the
 * kernel.
 */
long spawn_join(const int *fds, int n);
/* Close all of init's descriptors except those in @keep, which is sorted. */
long spawn_close_others(int *keep, int n);

#endif /* AGENT_CORE_SPAWN_H */
