/* SPDX-License-Identifier: Apache-2.0 */
/* handle.h - the opaque handles of warren.h */
#ifndef CORE_HANDLE_H
#define CORE_HANDLE_H

#include <pthread.h>

#include "backend/backend.h"

struct warren {
	const struct backend_ops *ops;
	void *state; /* state for the functions in ops */
	bool opened;
	/* Protects the list; different threads may use different sandboxes. */
	pthread_mutex_t lock;
	struct warren_sandbox *sandboxes;
	struct warren_feature *features;
};

struct warren_sandbox {
	struct warren *engine;
	struct backend_sandbox *sandbox;
	struct warren_sandbox *prev, *next;
	struct warren_exec *execs;
};

struct warren_exec {
	const struct backend_ops *ops;
	struct backend_exec *exec;
	struct warren_sandbox *sandbox; /* NULL once the sandbox is destroyed */
	struct warren_exec *next;
};

void sandbox_link(struct warren *w, struct warren_sandbox *sb);
/*
 * Remove the sandbox from its engine. Its execs remain without a sandbox, and their
 * owners must still free them.
 */
void sandbox_unlink(struct warren_sandbox *sb);
void exec_link(struct warren_sandbox *sb, struct warren_exec *ex);

int not_supported(const struct warren_sandbox *sb, const char *what,
		  struct warren_error *err);

#endif /* CORE_HANDLE_H */
