/* SPDX-License-Identifier: Apache-2.0 */
/*
 * egress.h - makes the connections of sandboxes that their policies allow
 *
 *	struct egress *e;
 *
 *	r = egress_new(loop, &options, &e, err);
 *	r = egress_add(e, id, policy, n, fds, &usage, err);
 *	loop_run(loop);
 *
 * In the network namespace of a sandbox, every address is local, and every TCP connection
 * arrives at one listening socket; its local address is the destination. Every DNS query
 * arrives at one UDP socket. This library serves both from outside the namespace:
 *
 *	names.h      the addresses that stand for names
 *	resolver.h   resolves names outside, without blocking
 *	lookup.h     whose name is resolved next
 *	first.h      what the first bytes of a connection are: TLS, HTTP or something else
 *	end.h        one of the two sockets of a flow, with the bytes queued for it
 *	account.h    limits and usage of a sandbox
 *	sockmem.h    sizes of the kernel's buffers
 *	record.h     recent denials, and what was used: the smallest policy that suffices
 *	flow.c       a connection: from its destination to a decision
 *	terminate.h  TLS that ends here, so that its requests can be inspected
 *	authority.h  the certificates for it
 *	front.c      explicit proxies (HTTP, SOCKS) and DNS over TCP
 *	upstream.c   resolves, judges each address, and connects to a judged one
 *	relay.c      carries bytes in both directions
 *	http_flow.c  judges each request, writes it anew, and follows the responses
 *	dns_server.c answers DNS queries
 *
 * No byte of a client is forwarded before policy_decide() has allowed the request.
 * Everything runs in one event loop, and each callback does a bounded amount of work, so
 * that a sandbox with many connections does not delay the others.
 */
#ifndef EGRESS_EGRESS_H
#define EGRESS_EGRESS_H

#include "base/buf.h"
#include "base/error.h"
#include "net/loop.h"
#include "proto/egress_proto.h"

/*
 * Concurrent connections of a sandbox whose policy has no smaller limit. More are reset
 * at once, so that one sandbox cannot use up the descriptors of all.
 */
#define EGRESS_FLOWS_MAX 4096

struct terminate;

struct egress_options {
	/* DNS servers, "ADDRESS[:PORT],..."; NULL: those of the system. */
	const char *dns_servers;
	/* Maximum number of lookups of a sandbox per second; 0: LOOKUP_RATE (lookup.h).
	 */
	uint64_t lookups_per_second;
	/* Terminates TLS; borrowed. NULL: no TLS is terminated (terminate.h). */
	struct terminate *terminate;
	/* Memory for TCP on this machine, in bytes; 0: not known. */
	uint64_t tcp_memory;
	/*
	 * Called for denials, with the JSON that egress_write_json() lists. If a sandbox
	 * has many denials in a second, this is not called for all of them.
	 */
	void (*denied)(void *ctx, const char *id, const char *json);
	/*
	 * Report a lease of bytes to the service before they are used (account.h). False:
	 * not possible now; try again later.
	 */
	bool (*lease)(void *ctx, const struct egress_usage_row *row);
	void *ctx;
};

struct egress;

int egress_new(struct net_loop *loop, const struct egress_options *options,
	       struct egress **ret, struct warren_error *err) MUST_CHECK;
struct egress *egress_free(struct egress *e);

/*
 * Serve a sandbox. Takes the listeners, also on failure. @policy is JSON of @n bytes.
 * -EEXIST: there is a sandbox with this id; -EINVAL: the policy or a socket is not valid.
 */
int egress_add(struct egress *e, const char *id, const char *policy, size_t n, int tcp,
	       int udp, const struct egress_usage *usage,
	       struct warren_error *err) MUST_CHECK;
/*
 * Replace the policy. New connections are judged by the new policy, and live ones are
 * judged again: those that it does not allow are reset. -ENOENT, -EINVAL: nothing has
 * changed.
 */
int egress_change(struct egress *e, const char *id, const char *policy, size_t n,
		  struct warren_error *err) MUST_CHECK;
/* Get what a sandbox has used up to now. -ENOENT. */
int egress_get_usage(struct egress *e, const char *id, struct egress_usage *ret,
		     struct warren_error *err) MUST_CHECK;
/* Reset all connections and forget the sandbox. -ENOENT. */
int egress_remove(struct egress *e, const char *id, struct warren_error *err) MUST_CHECK;
/* Write the state of a sandbox as a JSON object. -ENOENT. */
int egress_write_json(struct egress *e, const char *id, struct buf *out,
		      struct warren_error *err) MUST_CHECK;
/*
 * Get the sandboxes whose usage has changed since they were last returned here, at most
 * @n; returns how many.
 */
size_t egress_take_usage(struct egress *e, struct egress_usage_row *rows, size_t n);

#endif /* EGRESS_EGRESS_H */
