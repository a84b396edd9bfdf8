/* SPDX-License-Identifier: Apache-2.0 */
/*
 * upstream.c - connect to a destination
 *
 * A name is resolved again for each connection, and each of its addresses is checked
 * against the policy. Connections are made only to checked addresses, so it does not
 * matter what the name resolves to at other times.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>

#include "egress/egress_internal.h"

static void upstream_next(struct egress_flow *f);

static void upstream_forget_addresses(struct egress_flow *f)
{
	free(f->addresses);
	f->addresses = NULL;
	f->n_addresses = f->at_address = 0;
}

/* -------------------------------------------------------------------- connections */

void upstream_stop(struct egress_flow *f)
{
	lookup_cancel(&f->lookup);
	upstream_forget_addresses(f);
	end_close(&f->server);
	f->upstream = UPSTREAM_NONE;
	f->q.has_address = false;
}

static void upstream_ready(struct egress_flow *f)
{
	const int on = 1;

	(void)setsockopt(f->server.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(f->server.fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	sockmem_fix(f, f->server.fd);
	f->upstream = UPSTREAM_READY;
	upstream_forget_addresses(f);
	egress_flow_set_timer(f, 0);
	egress_flow_connected(f);
}

static void upstream_fail(struct egress_flow *f, int error)
{
	char text[128];

	(void)snprintf(text, sizeof(text), "connect: %s", strerror(error));
	upstream_stop(f);
	egress_flow_unreachable(f, error == ETIMEDOUT ? 504 : 502, text);
}

/* The TLS connection of the client is terminated here, so a new TLS connection to the
 * server begins. */
static void upstream_secure(struct egress_flow *f)
{
	char why[512];
	int r;

	f->upstream = UPSTREAM_SECURING;
	r = terminate_secure(f, why, sizeof(why));
	if (r == 0) {
		upstream_ready(f);
	} else if (r < 0) {
		upstream_stop(f);
		egress_flow_unreachable(f, 502, why);
	}
}

static void upstream_on_writable(struct egress_flow *f)
{
	int error = 0;
	socklen_t size = sizeof(error);

	if (getsockopt(f->server.fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
		error = errno;
	if (error == 0 && f->client.tls) {
		upstream_secure(f);
		return;
	}
	if (error == 0) {
		upstream_ready(f);
		return;
	}
	end_close(&f->server);
	if (f->at_address < f->n_addresses)
		upstream_next(f);
	else
		upstream_fail(f, error);
}

static void upstream_on_server(void *ctx, unsigned events)
{
	struct egress_flow *f = ctx;

	if (f->upstream == UPSTREAM_CONNECTING)
		upstream_on_writable(f);
	else if (f->upstream == UPSTREAM_SECURING)
		upstream_secure(f);
	else
		relay_on_server(f, events);
	if (!f->over)
		egress_flow_update(f);
}

/* Return 0 if the socket is connected or connecting; otherwise -errno. */
static int upstream_connect(struct egress_flow *f, const union resolver_address *a)
{
	struct address_net net;
	int fd = socket(a->sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int r;

	if (fd < 0)
		return -errno;
	r = end_open(&f->server, f->sandbox->egress->loop, fd, upstream_on_server, f);
	if (r < 0)
		return r;
	sockmem_prepare(f->sandbox, fd);
	if (connect(fd, &a->sa,
		    a->sa.sa_family == AF_INET ? sizeof(a->v4) : sizeof(a->v6)) < 0 &&
	    errno != EINPROGRESS) {
		r = -errno;
		end_close(&f->server);
		return r;
	}
	(void)address_widen(&a->sa, &net);
	host_of_address(&net, &f->q.address);
	f->q.has_address = true;
	f->upstream = UPSTREAM_CONNECTING;
	end_watch(&f->server, LOOP_WRITE);
	return 0;
}

static void upstream_next(struct egress_flow *f)
{
	int r = -EHOSTUNREACH;

	while (f->at_address < f->n_addresses) {
		r = upstream_connect(f, &f->addresses[f->at_address++]);
		if (r == 0)
			return;
	}
	upstream_fail(f, -r);
}

/* Keep the addresses that are allowed; if there are none, the flow is denied. */
static void upstream_judge(struct egress_flow *f, const union resolver_address *all,
			   size_t n)
{
	struct request q = f->q, denied = f->q;
	struct decision d, why = { 0 };

	f->addresses = calloc(n, sizeof(*f->addresses));
	if (!f->addresses) {
		upstream_fail(f, ENOMEM);
		return;
	}
	q.has_address = true;
	for (size_t i = 0; i < n; i++) {
		union resolver_address *a = &f->addresses[f->n_addresses];
		struct address_net net;

		if (!address_widen(&all[i].sa, &net))
			continue;
		*a = all[i];
		host_of_address(&net, &q.address);
		policy_decide(f->sandbox->index, &q, &d);
		if (d.allowed) {
			if (a->sa.sa_family == AF_INET)
				a->v4.sin_port = htons(q.port);
			else
				a->v6.sin6_port = htons(q.port);
			f->n_addresses++;
		} else {
			why = d;
			denied = q;
		}
	}
	if (f->n_addresses == 0) {
		upstream_stop(f);
		egress_flow_address_denied(f, &denied, &why);
		return;
	}
	upstream_next(f);
}

static void upstream_on_resolved(void *ctx, enum resolver_status status,
				 const union resolver_address *addresses, size_t n)
{
	struct egress_flow *f = ctx;

	if (status != RESOLVER_OK) {
		upstream_stop(f);
		egress_flow_unreachable(f, 502,
					status == RESOLVER_FAILED
						? "the name server does not answer"
						: "the name has no address");
	} else {
		upstream_judge(f, addresses, n);
	}
	if (!f->over)
		egress_flow_update(f);
}

/* Get the address if the destination itself is an address. */
static void upstream_own_address(const struct host *h, union resolver_address *ret)
{
	(void)memset(ret, 0, sizeof(*ret));
	if (address_net_is_v4(&h->net)) {
		ret->v4.sin_family = AF_INET;
		(void)memcpy(&ret->v4.sin_addr, h->net.bytes + 12, 4);
	} else {
		ret->v6.sin6_family = AF_INET6;
		(void)memcpy(&ret->v6.sin6_addr, h->net.bytes, 16);
	}
}

void upstream_start(struct egress_flow *f)
{
	union resolver_address own;

	egress_flow_set_timer(f, EGRESS_CONNECT_MS);
	f->upstream = UPSTREAM_RESOLVING;
	if (f->q.host.kind == HOST_NET) {
		upstream_own_address(&f->q.host, &own);
		upstream_judge(f, &own, 1);
		return;
	}
	if (lookup_start(&f->lookup, f->sandbox->lookups, f->name, LOOKUP_WAITS,
			 upstream_on_resolved, f))
		return;
	upstream_stop(f);
	egress_flow_unreachable(f, 503, "too many names are being resolved");
}
