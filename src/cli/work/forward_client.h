/* SPDX-License-Identifier: Apache-2.0 */
/* forward_client.h - run the command of warren-client with the same name */
#ifndef CLI_WORK_FORWARD_CLIENT_H
#define CLI_WORK_FORWARD_CLIENT_H

#include "base/buf.h"

/* Replace this process by warren-client; if that fails, return the exit status. */
int forward_client(char **argv);
/* Append what warren-client suggests for the operand that follows "warren COMMAND". */
void forward_client_complete(const char *command, struct buf *out);

#endif /* CLI_WORK_FORWARD_CLIENT_H */
