/* SPDX-License-Identifier: Apache-2.0 */
/* guest_server.h - serves files and ports to the shim, with the protocol of init */
#ifndef AGENT_GUEST_GUEST_SERVER_H
#define AGENT_GUEST_GUEST_SERVER_H

/* Listen on the socket @door and serve forever; return only if listening fails. */
void within_serve(const char *door);

#endif /* AGENT_GUEST_GUEST_SERVER_H */
