/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest_server.h - a guest agent that serves files and ports for its shim, like an init
 */
#ifndef AGENT_GUEST_GUEST_SERVER_H
#define AGENT_GUEST_GUEST_SERVER_H

/*
 * Serve the listener on the socket @door forever; returns only if that is not possible.
 */
void within_serve(const char *door);

#endif /* AGENT_GUEST_GUEST_SERVER_H */
