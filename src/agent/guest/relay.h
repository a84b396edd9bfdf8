/* SPDX-License-Identifier: Apache-2.0 */
/*
 * relay.h - relay a connection to a port in the sandbox, for platforms that cannot pass
 * sockets out of it
 */
#ifndef AGENT_GUEST_RELAY_H
#define AGENT_GUEST_RELAY_H

/*
 * Relay bytes between descriptor 0, a socket, and @port on loopback, until both
 * directions have ended. First write the result of connecting to descriptor 2: a number
 * of four bytes, which is 0 or an errno.
 */
__attribute__((noreturn)) void relay_run(int ipv6, int port);

#endif /* AGENT_GUEST_RELAY_H */
