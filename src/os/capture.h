/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture.h - deliver all connections of a network namespace to two sockets
 *
 * The namespace has only the interface lo. Three things capture its traffic:
 *
 *	- a route that makes every address local (RTN_LOCAL), so that packets to any
 *	  address arrive on lo;
 *	- a rule (nftables, tproxy) that delivers every TCP connection to one listening
 *	  socket, except connections to 127.0.0.0/8 and ::1 (but including DNS over TCP to
 *	  these, if no socket inside listens there);
 *	- a UDP socket on port 53, which receives DNS queries to any address.
 *
 * After accept(2), getsockname(2) returns the address that the client connected to. There
 * is no address translation and no connection tracking. Other UDP is refused by the
 * kernel (no socket has the port), and ICMP echo requests are rejected. Multicast and
 * broadcast fail when they are sent, unless their source is a loopback address.
 *
 * The owner of the sockets decides what happens to a connection. When the sockets are
 * closed, connections are refused: the namespace leads nowhere.
 */
#ifndef OS_CAPTURE_H
#define OS_CAPTURE_H

#include <stdint.h>

#include "base/error.h"

/*
 * Addresses that stand for names. The first one belongs to the interface; it is the
 * source of all connections.
 */
#define CAPTURE_NET4      UINT32_C(0xc6120000) /* 198.18.0.0/15, reserved for tests */
#define CAPTURE_NET4_BITS 15
#define CAPTURE_OWN4      (CAPTURE_NET4 + 1)
/* fd77:6172:7265:6e::/96; the last four bytes are the same as those of an IPv4 index. */
#define CAPTURE_NET6                                                                \
	{                                                                           \
		0xfd, 0x77, 0x61, 0x72, 0x72, 0x65, 0, 0x6e, 0, 0, 0, 0, 0, 0, 0, 0 \
	}
#define CAPTURE_PORT     1 /* port of the listening socket, bound to all addresses */
#define CAPTURE_DNS_PORT 53

struct capture {
	int tcp; /* listening; AF_INET6 for both families, or AF_INET without IPv6 */
	int udp; /* bound to port 53; reports the destination of each packet */
};

#define CAPTURE_INIT          \
	{                     \
		.tcp = -1, -1 \
	}

/*
 * Capture the network of the process @ns, a pidfd, or the network namespace @ns. This
 * needs the capabilities SYS_ADMIN and NET_ADMIN in the namespace. If it is already
 * captured, only new sockets are created. -EADDRINUSE: the sockets of an earlier call are
 * still open, or a process inside uses one of the ports; -EINVAL: it is the namespace of
 * the caller. The calling thread enters the namespace, and leaves it before this returns.
 */
int capture_open(int ns, struct capture *ret, struct warren_error *err);
/*
 * Like capture_open(), for an ordinary user who owns the user namespace: a child process
 * enters it first, and has the capabilities there. The namespaces are those of @sock, any
 * socket that was created inside: a process that cannot be inspected (init) does not show
 * them to its user.
 */
int capture_open_as_user(int sock, struct capture *ret, struct warren_error *err);
void capture_done(struct capture *c);

#endif /* OS_CAPTURE_H */
