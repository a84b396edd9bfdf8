/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_network.h - give the sandbox of `warren run` a network with a policy
 *
 * warren-egress runs as a child as long as the sandbox exists. It gets the policy and the
 * two sockets to which the sandbox's network leads (warren_capture_network()), and makes
 * all connections to the outside. If it dies, connections are refused, and the command
 * continues. It parses untrusted data: if root runs the command, warren-egress runs as
 * the user `nobody`.
 */
#ifndef CLI_RUN_NETWORK_H
#define CLI_RUN_NETWORK_H

#include <sys/types.h>

#include "base/json.h"
#include "cli/network_options.h"
#include "proto/egress_proto.h"

struct run_network {
	struct policy policy;
	const char *policy_text; /* the policy as JSON instead; NULL: none */
	const char *dns_servers; /* for warren-egress; NULL: the machine's */
	int control;             /* connection to warren-egress; -1: there is none */
	pid_t pid;
	char id[16]; /* id of the sandbox */
	uint64_t cookie;
	struct warren_enforcement *enforced;
	char *record; /* its last answer: JSON; NULL: unknown */
	bool learn;
};

#define RUN_NETWORK_INIT      \
	{                     \
		.control = -1 \
	}

/* Build the policy. Without one, the other functions do nothing. */
int run_network_init(struct run_network *n, const struct network_options *o,
		     struct warren_error *err) MUST_CHECK;
/* Start warren-egress; it loads while the sandbox is created. */
int run_network_start(struct run_network *n, struct warren_error *err) MUST_CHECK;
/* Connect @sb to it. */
int run_network_open(struct run_network *n, struct warren_sandbox *sb,
		     struct warren_error *err) MUST_CHECK;
/* Like warren_enforced(), but the row of the network describes the policy. */
const struct warren_enforcement *run_network_enforced(struct run_network *n,
						      const struct warren_sandbox *sb,
						      size_t *ret_n);
/*
 * After the sandbox was destroyed: let warren-egress deliver what the sandbox has sent,
 * then end it.
 */
void run_network_close(struct run_network *n);
/*
 * Print what the command used (`learn`) or was denied, as options that allow it. With
 * @quiet: only if it is `learn`.
 */
void run_network_say(const struct run_network *n, const char *command, bool quiet);
/* Write the member `network`: the policy, and what was used of it. */
void run_network_write(const struct run_network *n, struct json *j);
void run_network_done(struct run_network *n);

#endif /* CLI_RUN_NETWORK_H */
