/* SPDX-License-Identifier: Apache-2.0 */
/* forward.h - forward ports of this machine to ports of a sandbox */
#ifndef CLI_CLIENT_FORWARD_H
#define CLI_CLIENT_FORWARD_H

#include "cli/client/client.h"
#include "cli/client/commands.h"
#include "cli/run_options.h"

struct forward {
	struct client *client;
	const char *command; /* the warren command, as prefix of errors */
	char id[ID_LEN + 1];
	unsigned port; /* port of the sandbox */
	int listener;
};

/* Listen on "8080", "127.0.0.1:8080" or "[::1]:8080"; without an address, on loopback. */
int forward_listen(struct forward *f, const char *where,
		   struct warren_error *err) MUST_CHECK;
/* Forward until a signal or a failure. */
int forward_run(const struct forward *f, struct warren_error *err) MUST_CHECK;

/* Forward all ports while this process lives; return the first error. */
int publish_while_running(struct client *c, const char *id,
			  const struct publish_list *list,
			  struct warren_error *err) MUST_CHECK;
/* Forward all ports in a background process, until the sandbox is gone. */
int publish_in_background(struct client *c, const char *id,
			  const struct publish_list *list,
			  struct warren_error *err) MUST_CHECK;

#endif /* CLI_CLIENT_FORWARD_H */
