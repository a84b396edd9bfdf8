/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox_desc.h - description of a sandbox, for another process that talks to its init
 *
 * The creator writes it (warren_describe()). The other process, which has a connection
 * but no privileges, reads it. The format is that of state_file.h.
 */
#ifndef INITCLIENT_SANDBOX_DESC_H
#define INITCLIENT_SANDBOX_DESC_H

#include "initclient/request.h"

struct initclient_sandbox;
struct state_table;

/* Fields of a description that a state file does not have. */
extern const struct state_table description_more;

struct description {
	struct init_request_base base;
	const struct warren_enforcement *enforced;
	size_t n_enforced;
	bool paused; /* the processes are stopped, and the sandbox can be resumed */
	bool saved;  /* the sandbox is also checkpointed, and uses no memory */
	/* A copy of its files has paused it and could not resume it: its next use should.
	 */
	bool left_paused;
	struct initclient_sandbox
		*sandbox; /* owns the data that the members above point to */
};

int description_parse(const char *text, size_t size, struct description *ret,
		      struct warren_error *err);
void description_done(struct description *d);

#endif /* INITCLIENT_SANDBOX_DESC_H */
