/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy_file.h - the option --policy: a network policy in a file
 *
 * Options name hosts and ports. A file can contain everything that a policy has: methods
 * and paths, headers, limits. `warren network --suggest --json` prints such a file.
 */
#ifndef CLI_CLIENT_POLICY_FILE_H
#define CLI_CLIENT_POLICY_FILE_H

#include "cli/client/client.h"

/*
 * The setter of the option, into a json_t *: reads the file ("-": stdin), and checks the
 * policy, so that an error says where it is in the file.
 */
int value_policy_file(void *field, const char *value, struct warren_error *err);
/* If the service refuses @policy, which may be NULL, say where in the file this is. */
void policy_file_explain(const json_t *policy, struct warren_error *err);

/* clang-format off */
#define OPT_POLICY(at) \
	"policy", 0, "FILE", "policy.json", \
	"use the policy in this JSON file; -: stdin", value_policy_file, (at)
/* clang-format on */
#define POLICY_FILE_ONLY "the file contains the whole policy"

#endif /* CLI_CLIENT_POLICY_FILE_H */
