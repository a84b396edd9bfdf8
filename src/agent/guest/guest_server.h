/* SPDX-License-Identifier: Apache-2.0 */
/* guest_server.h - serves files and ports to the shim, with the protocol of init */
#ifndef AGENT_GUEST_GUEST_SERVER_H
#define AGENT_GUEST_GUEST_SERVER_H

/* Listen on the socket @socket and serve forever; return only if listening fails. */
void guest_server_run(const char *socket);

#endif /* AGENT_GUEST_GUEST_SERVER_H */
