/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spawn.h - start an exec: turn a SPAWN request into a process
 *
 * spawn.c reads the request and prepares the streams, in every agent that runs execs;
 * exec_child.c creates the process and detects that it has started.
 */
#ifndef AGENT_CORE_SPAWN_H
#define AGENT_CORE_SPAWN_H

#include "agent/core/agent.h"

struct plan {
	const struct proto_spawn *msg;
	const char *cwd;
	char **argv;
	char **env;
	/* The file of PROTO_SPAWN_FILE. If there is none, the name is empty. */
	const char *file, *content;
	size_t content_size;
	int stdio[3];
	int tty;                      /* slave of the pty; -1: none */
	int extra[PROTO_CONTROL_MAX]; /* -1: none */
	int gate;                     /* -1: none */
	int theirs[6];                /* pipe ends that only the child uses */
	int n_theirs;
	int own[PROTO_ROLE_MAX]; /* files for joining the exec's own cgroups */
	int n_own;
	int report; /* the child writes here which step failed */
	enum proto_stage stage;
};

static inline bool spawn_has_control(const struct proto_spawn *msg)
{
	return msg->control[0] || msg->control[1] || msg->control[2];
}

/* Report in the reply and in the journal that @ex did not start. */
void spawn_failed(struct exec *ex, long error, enum proto_stage stage);

/* exec_child.c */
/*
 * Move the calling thread into cgroups by writing "0", which takes no global kernel lock.
 */
long spawn_join(const int *fds, int n);
/* Close all of init's descriptors except those in @keep, which is sorted. */
long spawn_close_others(int *keep, int n);

#endif /* AGENT_CORE_SPAWN_H */
