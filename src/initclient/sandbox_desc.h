/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox_desc.h - what another process must know about a sandbox to talk to its init
 *
 * The maker writes it (warren_describe()), the other process, which has a
 * connection and no rights, reads it. It is the text of state_file.h.
 */
#ifndef INITCLIENT_SANDBOX_DESC_H
#define INITCLIENT_SANDBOX_DESC_H

#include "initclient/request.h"

struct initclient_sandbox;

struct description {
	struct init_request_base base;
	const struct warren_enforcement *enforced;
	size_t n_enforced;
	bool paused; /* nothing of it runs, and it can be resumed */
	bool saved;  /* and nothing of it is in memory */
	struct initclient_sandbox *sandbox; /* what the above points into */
};

int description_parse(const char *text, size_t size, struct description *ret,
		      struct warren_error *err);
void description_done(struct description *d);

#endif /* INITCLIENT_SANDBOX_DESC_H */
