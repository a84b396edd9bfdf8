/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dns_server.c - the resolver of the sandboxes
 *
 * An allowed name is resolved outside first, so that the answer says correctly whether
 * the name exists. Then it is answered with the addresses that stand for the name
 * (names.h). The lifetime of the answer is short, because these addresses are reused
 * later.
 *
 * A name that is not allowed is answered with NXDOMAIN. With REFUSED or SERVFAIL, clients
 * would ask again, or report a temporary failure, so that programs try again. When all
 * bytes of the sandbox are used, REFUSED is right: the limit may be raised. If it asks
 * for too many names at a time, SERVFAIL is right: the same query works later.
 *
 * A query that is resolved outside and its answer count as bytes of the sandbox, because
 * the name and its existence can carry data.
 */
#include <errno.h>
#include <string.h>

#include "egress/egress_internal.h"
#include "network/dns.h"

#define DNS_SERVER_TTL 10
/* Maximum size of a query; longer ones have no use here. */
#define DNS_SERVER_QUERY_MAX 1232
#define DNS_SERVER_ANSWER    1232
#define DNS_SERVER_TURN      32  /* maximum number of queries in one callback */
#define DNS_SERVER_OPS_MAX   512 /* queries of a sandbox that wait at a time */

/* A query that waits for its name to be resolved, or is being answered. */
struct dns_op {
	struct dns_op *next, **prev;
	struct egress_sandbox *sandbox;
	struct egress_flow *flow; /* NULL: the query arrived by UDP */
	struct lookup lookup;
	union resolver_address peer;
	union resolver_address local; /* the address that the query was sent to */
	struct dns_query q;
	size_t n;     /* size of the query as it was received */
	bool counted; /* the query was counted, so the answer counts, too */
	uint8_t data[DNS_SERVER_QUERY_MAX];
	char name[HOST_TEXT_SIZE]; /* in lower case */
};

/* ------------------------------------------------------------------------- answers */

/* Send from the address that the query was sent to. */
static void dns_server_put_source(const struct dns_op *op, struct msghdr *msg)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	struct in6_pktinfo v6 = { 0 };
	struct in_pktinfo v4 = { 0 };
	bool is_v6 = op->peer.sa.sa_family == AF_INET6;

	if (is_v6 && op->local.sa.sa_family == AF_INET6) {
		v6.ipi6_addr = op->local.v6.sin6_addr;
	} else if (is_v6) {
		v6.ipi6_addr.s6_addr[10] = v6.ipi6_addr.s6_addr[11] = 0xff;
		(void)memcpy(&v6.ipi6_addr.s6_addr[12], &op->local.v4.sin_addr, 4);
	} else {
		v4.ipi_spec_dst = op->local.v4.sin_addr;
	}
	c->cmsg_level = is_v6 ? IPPROTO_IPV6 : IPPROTO_IP;
	c->cmsg_type = is_v6 ? IPV6_PKTINFO : IP_PKTINFO;
	c->cmsg_len = is_v6 ? CMSG_LEN(sizeof(v6)) : CMSG_LEN(sizeof(v4));
	if (is_v6)
		(void)memcpy(CMSG_DATA(c), &v6, sizeof(v6));
	else
		(void)memcpy(CMSG_DATA(c), &v4, sizeof(v4));
	msg->msg_controllen = is_v6 ? CMSG_SPACE(sizeof(v6)) : CMSG_SPACE(sizeof(v4));
}

static void dns_server_send_udp(struct dns_op *op, uint8_t *data, size_t n)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(struct in6_pktinfo))];
	} control = { 0 };
	struct iovec iov = { .iov_base = data, .iov_len = n };
	struct msghdr msg = { .msg_name = &op->peer,
			      .msg_namelen = op->peer.sa.sa_family == AF_INET6
						     ? sizeof(op->peer.v6)
						     : sizeof(op->peer.v4),
			      .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };

	dns_server_put_source(op, &msg);
	/* If the answer is lost, the client repeats its query. */
	(void)sendmsg(op->sandbox->udp, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void dns_server_send_tcp(struct egress_flow *f, const uint8_t *data, size_t n)
{
	uint8_t frame[2 + DNS_SERVER_ANSWER] = { (uint8_t)(n >> 8), (uint8_t)n };

	(void)memcpy(frame + 2, data, n);
	if (end_write(&f->client, frame, n + 2) < 0)
		egress_flow_reset(f);
}

static void dns_server_unlist(struct dns_op *op)
{
	if (!op->prev)
		return;
	DLIST_REMOVE(op);
	op->sandbox->n_dns_ops--;
}

/* Send the answer, and free the query. */
static void dns_server_answer(struct dns_op *op, enum dns_rcode code,
			      const struct address_net *addresses, size_t n)
{
	uint8_t out[DNS_SERVER_ANSWER];
	size_t size = sizeof(out);
	struct egress_flow *f = op->flow;

	if (!f && op->q.udp_size < size)
		size = op->q.udp_size;
	n = dns_answer(&op->q, code, addresses, n, DNS_SERVER_TTL, out, size);
	if (op->counted && !egress_count_message(op->sandbox, n + (f ? 2 : 0), 0))
		n = dns_answer(&op->q, DNS_REFUSED, NULL, 0, 0, out, size);
	dns_server_unlist(op);
	if (f) {
		f->dns_op = NULL;
		dns_server_send_tcp(f, out, n);
	} else {
		dns_server_send_udp(op, out, n);
	}
	free(op);
	if (f && !f->over) {
		egress_flow_set_timer(f, EGRESS_DNS_MS);
		egress_flow_update(f);
	}
}

static void dns_server_on_resolved(void *ctx, enum resolver_status status,
				   const union resolver_address *addresses UNUSED,
				   size_t n UNUSED)
{
	struct dns_op *op = ctx;
	struct address_net mine[2];
	uint32_t number = 0;

	if (status == RESOLVER_NO_NAME)
		dns_server_answer(op, DNS_NXDOMAIN, NULL, 0);
	else if (status == RESOLVER_NO_DATA)
		dns_server_answer(op, DNS_OK, NULL, 0);
	else if (status != RESOLVER_OK ||
		 names_put(op->sandbox->names, op->name, &number) < 0)
		dns_server_answer(op, DNS_SERVFAIL, NULL, 0);
	else {
		names_addresses(number, mine);
		dns_server_answer(op, DNS_OK, mine, 2);
	}
}

/* ------------------------------------------------------------------------- queries */

/* Clients query both families of addresses, which counts as one denial. */
static void dns_server_denied(struct egress_sandbox *sb, const struct dns_op *op,
			      const struct request *q, const struct decision *d)
{
	if (op->q.type != DNS_A && op->q.type != DNS_AAAA)
		return;
	if (op->q.type == DNS_AAAA && sb->dns_denied &&
	    strcmp(sb->dns_denied, op->name) == 0)
		return;
	free(sb->dns_denied);
	sb->dns_denied = strdup(op->name);
	egress_denied(sb, q, d, NULL);
}

/* Judge a query that was parsed. The query is freed now, or when it has been answered. */
static void dns_server_judge(struct dns_op *op)
{
	struct egress_sandbox *sb = op->sandbox;
	struct request q = { .opening = true };
	struct warren_error err = WARREN_ERROR_INIT;
	struct decision d;

	if (host_parse_single(op->q.name, strlen(op->q.name), op->name, &q.host, &err) <
		    0 ||
	    q.host.kind != HOST_NAME) {
		/*
		 * The name cannot be written as a host, so the denial is counted but not
		 * listed.
		 */
		sb->account.usage.denied++;
		egress_usage_changed(sb);
		dns_server_answer(op, DNS_NXDOMAIN, NULL, 0);
		return;
	}
	policy_decide(sb->index, &q, &d);
	if (!d.allowed) {
		dns_server_denied(sb, op, &q, &d);
		dns_server_answer(op, DNS_NXDOMAIN, NULL, 0);
		return;
	}
	if (op->q.type != DNS_A && op->q.type != DNS_AAAA) {
		dns_server_answer(op, DNS_OK, NULL, 0);
		return;
	}
	/* A lookup leaves the sandbox, as a connection would. */
	op->counted = egress_count_message(sb, 0, op->n + (op->flow ? 2 : 0));
	if (!op->counted) {
		sb->account.usage.denied++;
		egress_usage_changed(sb);
		dns_server_answer(op, DNS_REFUSED, NULL, 0);
		return;
	}
	if (sb->n_dns_ops >= DNS_SERVER_OPS_MAX ||
	    !lookup_start(&op->lookup, sb->lookups, op->name, LOOKUP_WAITS_BRIEFLY,
			  dns_server_on_resolved, op)) {
		egress_denied(sb, &q, &d, "too many names at a time");
		dns_server_answer(op, DNS_SERVFAIL, NULL, 0);
		return;
	}
	DLIST_PUSH(sb->dns_ops, op);
	sb->n_dns_ops++;
}

/* Takes over @op, whose data has @n bytes. */
static void dns_server_query(struct dns_op *op, size_t n)
{
	int code = dns_query_parse(op->data, n, &op->q);

	op->n = n;
	if (code < 0) {
		struct egress_flow *f = op->flow;

		free(op);
		if (f) {
			f->dns_op = NULL;
			egress_flow_reset(f);
		}
		return;
	}
	if (code != DNS_OK)
		dns_server_answer(op, (enum dns_rcode)code, NULL, 0);
	else
		dns_server_judge(op);
}

/* ----------------------------------------------------------------------------- UDP */

/* Get the address that a datagram was sent to, before it was redirected. */
static bool dns_server_destination(struct msghdr *msg, union resolver_address *ret)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_ORIGDSTADDR) {
			(void)memcpy(ret, CMSG_DATA(c), sizeof(ret->v6));
			return true;
		}
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_ORIGDSTADDR) {
			(void)memcpy(ret, CMSG_DATA(c), sizeof(ret->v4));
			return true;
		}
	}
	return false;
}

/* Return false if there is no datagram. */
static bool dns_server_receive(struct egress_sandbox *sb)
{
	struct dns_op *op = calloc(1, sizeof(*op));
	char control[256];
	struct iovec iov = { .iov_base = op ? op->data : NULL,
			     .iov_len = DNS_SERVER_QUERY_MAX };
	struct msghdr msg = { .msg_name = op ? &op->peer : NULL,
			      .msg_namelen = sizeof(op->peer),
			      .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	ssize_t n = op ? recvmsg(sb->udp, &msg, MSG_DONTWAIT) : -1;

	if (n < 0 || (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) ||
	    !dns_server_destination(&msg, &op->local)) {
		free(op);
		return n >= 0;
	}
	op->sandbox = sb;
	dns_server_query(op, (size_t)n);
	return true;
}

void dns_server_on_udp(void *ctx, unsigned events UNUSED)
{
	struct egress_sandbox *sb = ctx;

	for (int i = 0; i < DNS_SERVER_TURN && dns_server_receive(sb); i++)
		;
}

/* ----------------------------------------------------------------------------- TCP */

/* Read one query at a time; the next one is read after the answer. */
void dns_server_read_tcp(struct egress_flow *f)
{
	ssize_t n, len;
	struct dns_op *op;
	size_t have = f->first.len;
	size_t want = have < 2 ? 2 - have : 0;
	char *at;

	if (!want) {
		len = dns_frame((uint8_t *)f->first.data, 2 + DNS_SERVER_QUERY_MAX);
		if (len <= 0 || len > DNS_SERVER_QUERY_MAX) {
			egress_flow_reset(f);
			return;
		}
		want = 2 + (size_t)len - have;
	}
	at = buf_reserve(&f->first, want);
	n = at ? end_read(&f->client, at, want) : -ENOMEM;
	if (n == -EAGAIN)
		return;
	if (n <= 0) {
		egress_flow_end(f);
		return;
	}
	f->first.len += (size_t)n;
	len = f->first.len < 2 ? 0 : dns_frame((uint8_t *)f->first.data, f->first.len);
	if (len < 0) {
		egress_flow_reset(f);
		return;
	}
	if (len == 0)
		return;
	op = calloc(1, sizeof(*op));
	if (!op) {
		egress_flow_reset(f);
		return;
	}
	op->sandbox = f->sandbox;
	op->flow = f;
	f->dns_op = op;
	(void)memcpy(op->data, f->first.data + 2, (size_t)len);
	f->first.len = 0;
	dns_server_query(op, (size_t)len);
}

static void dns_server_cancel(struct dns_op *op)
{
	lookup_cancel(&op->lookup);
	dns_server_unlist(op);
	free(op);
}

void dns_server_forget(struct egress_flow *f)
{
	if (f->dns_op)
		dns_server_cancel(f->dns_op);
	f->dns_op = NULL;
}

void dns_server_stop(struct egress_sandbox *sb)
{
	while (sb->dns_ops) {
		struct dns_op *op = sb->dns_ops;

		if (op->flow)
			op->flow->dns_op = NULL;
		dns_server_cancel(op);
	}
	free(sb->dns_denied);
	sb->dns_denied = NULL;
}
