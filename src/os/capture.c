/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture.c - deliver all connections of a network namespace to two sockets
 *
 * Addresses, routes and rules are set by netlink messages. The messages are constant
 * except for one port, so they are built here without a library: libwarren needs no other
 * library than libc.
 */
#include "os/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/ip_icmp.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

/*
 * Include these after the headers of the C library, which otherwise define the same names
 * again.
 */
#include <linux/icmpv6.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/nsfs.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>

#include "base/fd.h"
#include "os/ns.h"

#define LO_INDEX     1
#define TABLE        "warren"
#define CHAIN_BEFORE "before"
#define CHAIN_INPUT  "input"
#define CHAIN_OUTPUT "output"
#define CHAIN_DNS    "dns"
#define BACKLOG      4096
#define MESSAGES_MAX 12288
#define ANSWER_MAX   4096

static const uint8_t net6[16] = CAPTURE_NET6;
static const uint8_t loopback6[16] = { [15] = 1 };

/* ------------------------------------------------------------ netlink messages */

/* Messages for one sendmsg(2). Their size is constant, so an assert checks it. */
struct messages {
	_Alignas(NLMSG_ALIGNTO) char bytes[MESSAGES_MAX];
	size_t n;
	struct nlmsghdr *last;
	uint32_t seq;
	uint32_t awaited; /* number of the message whose answer is the last one */
};

static void *messages_grow(struct messages *m, size_t n)
{
	void *at = m->bytes + m->n;

	if (m->n + NLMSG_ALIGN(n) > sizeof(m->bytes))
		abort();
	m->n += NLMSG_ALIGN(n); /* the padding bytes are 0 */
	return at;
}

static void *message_begin(struct messages *m, uint16_t type, uint16_t flags, size_t head)
{
	m->last = messages_grow(m, NLMSG_HDRLEN);
	m->last->nlmsg_type = type;
	m->last->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
	m->last->nlmsg_seq = ++m->seq;
	return messages_grow(m, head);
}

static void message_end(struct messages *m)
{
	m->last->nlmsg_len = (uint32_t)(m->bytes + m->n - (char *)m->last);
}

static void message_attribute(struct messages *m, uint16_t type, const void *data,
			      size_t n)
{
	struct nlattr *a = messages_grow(m, NLA_HDRLEN + n);

	a->nla_type = type;
	a->nla_len = (uint16_t)(NLA_HDRLEN + n);
	memcpy((char *)a + NLA_HDRLEN, data, n);
}

static void attribute_text(struct messages *m, uint16_t type, const char *text)
{
	message_attribute(m, type, text, strlen(text) + 1);
}

/* nftables uses big-endian numbers. */
static void attribute_be32(struct messages *m, uint16_t type, uint32_t value)
{
	value = htonl(value);
	message_attribute(m, type, &value, sizeof(value));
}

static struct nlattr *message_nest(struct messages *m, uint16_t type)
{
	struct nlattr *a = messages_grow(m, NLA_HDRLEN);

	a->nla_type = (uint16_t)(type | NLA_F_NESTED);
	return a;
}

static void nest_end(struct messages *m, struct nlattr *a)
{
	a->nla_len = (uint16_t)(m->bytes + m->n - (char *)a);
}

/* Ask for an answer to the last message. The others are answered only if they fail. */
static void messages_want_answer(struct messages *m)
{
	m->last->nlmsg_flags |= NLM_F_ACK;
	m->awaited = m->seq;
}

/* -EEXIST: some messages were refused because their objects already exist; the others
 * were carried out. */
static int messages_send(struct messages *m, int protocol, const char *what,
			 struct warren_error *err)
{
	AUTO_CLOSE int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
	_Alignas(NLMSG_ALIGNTO) char answer[ANSWER_MAX];
	bool exists = false;

	if (fd < 0 || send(fd, m->bytes, m->n, 0) < 0)
		return error_errno(err, errno, "%s", what);
	while (m->awaited > 0) {
		/* The kernel answers before send(2) returns. */
		ssize_t n = recv(fd, answer, sizeof(answer), MSG_DONTWAIT);

		if (n < 0)
			return error_errno(err, errno, "%s", what);
		for (struct nlmsghdr *h = (struct nlmsghdr *)answer;
		     NLMSG_OK(h, (size_t)n); h = NLMSG_NEXT(h, n)) {
			const struct nlmsgerr *e = NLMSG_DATA(h);

			if (h->nlmsg_type != NLMSG_ERROR)
				continue;
			if (e->error && e->error != -EEXIST)
				return error_errno(err, -e->error, "%s", what);
			exists = exists || e->error;
			if (h->nlmsg_seq == m->awaited)
				m->awaited = 0;
		}
	}
	return exists ? -EEXIST : 0;
}

/* ------------------------------------------------------- addresses and routes */

static void put_address(struct messages *m, uint8_t family, const void *address,
			uint8_t n)
{
	struct ifaddrmsg *a = message_begin(m, RTM_NEWADDR, NLM_F_CREATE, sizeof(*a));

	a->ifa_family = family;
	a->ifa_prefixlen = (uint8_t)(n * 8);
	a->ifa_scope = RT_SCOPE_UNIVERSE;
	a->ifa_flags = IFA_F_NODAD;
	a->ifa_index = LO_INDEX;
	message_attribute(m, IFA_LOCAL, address, n);
	message_attribute(m, IFA_ADDRESS, address, n);
	message_end(m);
}

/* Make every address local; connections come from @source. */
static void put_route(struct messages *m, uint8_t family, const void *source, uint8_t n)
{
	struct rtmsg *r =
		message_begin(m, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, sizeof(*r));
	uint32_t lo = LO_INDEX;

	r->rtm_family = family;
	r->rtm_table = RT_TABLE_LOCAL;
	r->rtm_protocol = RTPROT_STATIC;
	r->rtm_scope = family == AF_INET ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE;
	r->rtm_type = RTN_LOCAL;
	message_attribute(m, RTA_OIF, &lo, sizeof(lo));
	message_attribute(m, RTA_PREFSRC, source, n);
	message_end(m);
}

static int set_routes(bool ipv6, struct warren_error *err)
{
	struct messages m = { .n = 0 };
	uint32_t own4 = htonl(CAPTURE_OWN4);
	uint8_t own6[16];
	int r;

	memcpy(own6, net6, sizeof(own6));
	own6[15] = 1;
	put_address(&m, AF_INET, &own4, sizeof(own4));
	put_route(&m, AF_INET, &own4, sizeof(own4));
	if (ipv6) {
		put_address(&m, AF_INET6, own6, sizeof(own6));
		put_route(&m, AF_INET6, own6, sizeof(own6));
	}
	messages_want_answer(&m);
	r = messages_send(&m, NETLINK_ROUTE, "set the routes", err);
	return r == -EEXIST ? 0 : r;
}

/*
 * A namespace that another program created, such as docker, may have IPv6 switched off.
 * If IPv6 stays off, it cannot be used to get out.
 */
static int set_routes_of_any(bool ipv6, struct warren_error *err)
{
	static const char off[] = "/proc/sys/net/ipv6/conf/lo/disable_ipv6";
	int r = set_routes(ipv6, err);
	AUTO_CLOSE int fd = -1;

	if (r != -EACCES || !ipv6)
		return r;
	*err = (struct warren_error)WARREN_ERROR_INIT;
	fd = open(off, O_WRONLY | O_CLOEXEC); /* of the caller's namespace */
	return set_routes(fd >= 0 && fd_write_all(fd, "0", 1) == 0, err);
}

/* ----------------------------------------------------------------------- rules */

static void put_batch(struct messages *m, uint16_t type)
{
	struct nfgenmsg *g = message_begin(m, type, 0, sizeof(*g));

	g->res_id = htons(NFNL_SUBSYS_NFTABLES);
	message_end(m);
}

static void nft_message(struct messages *m, unsigned type, uint16_t flags)
{
	struct nfgenmsg *g = message_begin(
		m, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type), flags, sizeof(*g));

	g->nfgen_family = NFPROTO_INET;
	g->version = NFNETLINK_V0;
}

static void put_chain(struct messages *m, const char *name, uint32_t hook,
		      int32_t priority)
{
	struct nlattr *n;

	nft_message(m, NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_EXCL);
	attribute_text(m, NFTA_CHAIN_TABLE, TABLE);
	attribute_text(m, NFTA_CHAIN_NAME, name);
	n = message_nest(m, NFTA_CHAIN_HOOK);
	attribute_be32(m, NFTA_HOOK_HOOKNUM, hook);
	attribute_be32(m, NFTA_HOOK_PRIORITY, (uint32_t)priority);
	nest_end(m, n);
	attribute_text(m, NFTA_CHAIN_TYPE, "filter");
	message_end(m);
}

/* An expression of a rule, between begin and end. */
struct expression {
	struct nlattr *element, *data;
};

static struct expression rule_expression(struct messages *m, const char *name)
{
	struct expression e = { .element = message_nest(m, NFTA_LIST_ELEM) };

	attribute_text(m, NFTA_EXPR_NAME, name);
	e.data = message_nest(m, NFTA_EXPR_DATA);
	return e;
}

static void expression_end(struct messages *m, struct expression e)
{
	nest_end(m, e.data);
	nest_end(m, e.element);
}

static void put_value(struct messages *m, uint16_t type, const void *value, size_t n)
{
	struct nlattr *a = message_nest(m, type);

	message_attribute(m, NFTA_DATA_VALUE, value, n);
	nest_end(m, a);
}

static void rule_compare(struct messages *m, uint32_t op, const void *value, size_t n)
{
	struct expression e = rule_expression(m, "cmp");

	attribute_be32(m, NFTA_CMP_SREG, NFT_REG_1);
	attribute_be32(m, NFTA_CMP_OP, op);
	put_value(m, NFTA_CMP_DATA, value, n);
	expression_end(m, e);
}

static void match_meta(struct messages *m, uint32_t key, uint8_t value)
{
	struct expression e = rule_expression(m, "meta");

	attribute_be32(m, NFTA_META_DREG, NFT_REG_1);
	attribute_be32(m, NFTA_META_KEY, key);
	expression_end(m, e);
	rule_compare(m, NFT_CMP_EQ, &value, sizeof(value));
}

static void match_bytes(struct messages *m, uint32_t base, uint32_t at, uint32_t op,
			const void *value, uint32_t n)
{
	struct expression e = rule_expression(m, "payload");

	attribute_be32(m, NFTA_PAYLOAD_DREG, NFT_REG_1);
	attribute_be32(m, NFTA_PAYLOAD_BASE, base);
	attribute_be32(m, NFTA_PAYLOAD_OFFSET, at);
	attribute_be32(m, NFTA_PAYLOAD_LEN, n);
	expression_end(m, e);
	rule_compare(m, op, value, n);
}

/* An address family, as rules see it. */
struct family {
	uint8_t proto;
	uint32_t source, destination; /* offsets of the addresses */
	const void *loopback;         /* first bytes of an address that stays inside */
	uint32_t loopback_len;
	uint8_t icmp, echo;
};

static const struct family families[] = {
	{ NFPROTO_IPV4, offsetof(struct iphdr, saddr), offsetof(struct iphdr, daddr),
	  "\x7f", 1, IPPROTO_ICMP, ICMP_ECHO },
	{ NFPROTO_IPV6, offsetof(struct ip6_hdr, ip6_src),
	  offsetof(struct ip6_hdr, ip6_dst), loopback6, sizeof(loopback6), IPPROTO_ICMPV6,
	  ICMPV6_ECHO_REQUEST },
};

/* Addresses of more than one receiver: their first bytes, as a range. */
static const struct group {
	bool ipv6;
	const char *first, *last;
	uint32_t n;
} groups[] = {
	{ false, "\xe0", "\xef", 1 },
	{ false, "\xff\xff\xff\xff", "\xff\xff\xff\xff", 4 },
	{ true, "\xff", "\xff", 1 },
};

static struct nlattr *rule_begin_family(struct messages *m, const char *chain,
					const struct family *f)
{
	struct nlattr *list;

	nft_message(m, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
	attribute_text(m, NFTA_RULE_TABLE, TABLE);
	attribute_text(m, NFTA_RULE_CHAIN, chain);
	list = message_nest(m, NFTA_RULE_EXPRESSIONS);
	match_meta(m, NFT_META_NFPROTO, f->proto);
	return list;
}

static struct nlattr *rule_begin(struct messages *m, const char *chain,
				 const struct family *f, uint8_t protocol)
{
	struct nlattr *list = rule_begin_family(m, chain, f);

	match_meta(m, NFT_META_L4PROTO, protocol);
	match_bytes(m, NFT_PAYLOAD_NETWORK_HEADER, f->destination, NFT_CMP_NEQ,
		    f->loopback, f->loopback_len);
	return list;
}

static void rule_end(struct messages *m, struct nlattr *list)
{
	nest_end(m, list);
	message_end(m);
}

/* Deliver a connection to the listening socket. */
static void put_deliver(struct messages *m, const struct family *f)
{
	uint16_t port = htons(CAPTURE_PORT);
	struct expression e = rule_expression(m, "immediate");

	attribute_be32(m, NFTA_IMMEDIATE_DREG, NFT_REG_1);
	put_value(m, NFTA_IMMEDIATE_DATA, &port, sizeof(port));
	expression_end(m, e);
	e = rule_expression(m, "tproxy");
	attribute_be32(m, NFTA_TPROXY_FAMILY, f->proto);
	attribute_be32(m, NFTA_TPROXY_REG_PORT, NFT_REG_1);
	expression_end(m, e);
}

static void put_tcp(struct messages *m, const struct family *f)
{
	struct nlattr *list = rule_begin(m, CHAIN_BEFORE, f, IPPROTO_TCP);

	put_deliver(m, f);
	rule_end(m, list);
}

static struct nlattr *rule_begin_own_dns(struct messages *m, const struct family *f)
{
	struct nlattr *list = rule_begin_family(m, CHAIN_DNS, f);
	uint16_t port = htons(CAPTURE_DNS_PORT);

	match_meta(m, NFT_META_L4PROTO, IPPROTO_TCP);
	match_bytes(m, NFT_PAYLOAD_NETWORK_HEADER, f->destination, NFT_CMP_EQ,
		    f->loopback, f->loopback_len);
	match_bytes(m, NFT_PAYLOAD_TRANSPORT_HEADER, offsetof(struct tcphdr, th_dport),
		    NFT_CMP_EQ, &port, sizeof(port));
	return list;
}

/*
 * Match if a socket inside receives the packet, which then stays inside. The value of the
 * mark does not matter: a socket of a connection that has ended has no mark, so it does
 * not match.
 */
static void put_accept_own(struct messages *m)
{
	struct expression e = rule_expression(m, "socket");
	struct nlattr *data, *verdict;

	attribute_be32(m, NFTA_SOCKET_DREG, NFT_REG_1);
	attribute_be32(m, NFTA_SOCKET_KEY, NFT_SOCKET_MARK);
	expression_end(m, e);
	e = rule_expression(m, "immediate");
	attribute_be32(m, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
	data = message_nest(m, NFTA_IMMEDIATE_DATA);
	verdict = message_nest(m, NFTA_DATA_VERDICT);
	attribute_be32(m, NFTA_VERDICT_CODE, NF_ACCEPT);
	nest_end(m, verdict);
	nest_end(m, data);
	expression_end(m, e);
}

/* DNS by TCP to a loopback address: deliver it, unless a socket inside listens there. */
static void put_own_dns(struct messages *m, const struct family *f)
{
	struct nlattr *list = rule_begin_own_dns(m, f);

	put_accept_own(m);
	rule_end(m, list);
	list = rule_begin_own_dns(m, f);
	put_deliver(m, f);
	rule_end(m, list);
}

static void put_reject(struct messages *m)
{
	uint8_t code = NFT_REJECT_ICMPX_ADMIN_PROHIBITED;
	struct expression e = rule_expression(m, "reject");

	attribute_be32(m, NFTA_REJECT_TYPE, NFT_REJECT_ICMPX_UNREACH);
	message_attribute(m, NFTA_REJECT_ICMP_CODE, &code, sizeof(code));
	expression_end(m, e);
}

/* Drop echo requests. Otherwise, the kernel would answer them for every address. */
static void put_echo(struct messages *m, const struct family *f)
{
	struct nlattr *list = rule_begin(m, CHAIN_INPUT, f, f->icmp);

	match_bytes(m, NFT_PAYLOAD_TRANSPORT_HEADER, 0, NFT_CMP_EQ, &f->echo, 1);
	put_reject(m);
	rule_end(m, list);
}

/*
 * Let multicast and broadcast fail when they are sent: there is no ICMP error for them.
 * From a loopback address, they stay inside.
 */
static void put_group(struct messages *m, const struct group *g)
{
	const struct family *f = &families[g->ipv6];
	struct nlattr *list = rule_begin_family(m, CHAIN_OUTPUT, f);

	match_bytes(m, NFT_PAYLOAD_NETWORK_HEADER, f->source, NFT_CMP_NEQ, f->loopback,
		    f->loopback_len);
	match_bytes(m, NFT_PAYLOAD_NETWORK_HEADER, f->destination, NFT_CMP_GTE, g->first,
		    g->n);
	rule_compare(m, NFT_CMP_LTE, g->last, g->n);
	put_reject(m);
	rule_end(m, list);
}

static void put_rules(struct messages *m, bool ipv6, bool dns)
{
	size_t n = ipv6 ? 2 : 1;

	put_batch(m, NFNL_MSG_BATCH_BEGIN);
	nft_message(m, NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_EXCL);
	attribute_text(m, NFTA_TABLE_NAME, TABLE);
	message_end(m);
	put_chain(m, CHAIN_BEFORE, NF_INET_PRE_ROUTING, -150);
	put_chain(m, CHAIN_INPUT, NF_INET_LOCAL_IN, 0);
	put_chain(m, CHAIN_OUTPUT, NF_INET_LOCAL_OUT, 0);
	for (size_t i = 0; i < n; i++) {
		put_tcp(m, &families[i]);
		put_echo(m, &families[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(groups); i++)
		if (ipv6 || !groups[i].ipv6)
			put_group(m, &groups[i]);
	if (dns)
		put_chain(m, CHAIN_DNS, NF_INET_PRE_ROUTING, -150);
	for (size_t i = 0; dns && i < n; i++)
		put_own_dns(m, &families[i]);
	/* The last answer says whether the batch as a whole was accepted. */
	messages_want_answer(m);
	put_batch(m, NFNL_MSG_BATCH_END);
}

/*
 * Not every kernel has the expression `socket`, which the rules for DNS over TCP to the
 * loopback addresses need. Without these rules, such a connection is refused.
 */
static int set_rules(bool ipv6, struct warren_error *err)
{
	struct messages all = { .n = 0 }, fewer = { .n = 0 };
	struct warren_error why = WARREN_ERROR_INIT;
	int r;

	put_rules(&all, ipv6, true);
	r = messages_send(&all, NETLINK_NETFILTER, "set the rules (nftables)", &why);
	if (r == -ENOENT || r == -EOPNOTSUPP) {
		put_rules(&fewer, ipv6, false);
		r = messages_send(&fewer, NETLINK_NETFILTER, "set the rules (nftables)",
				  err);
	} else if (r < 0 && r != -EEXIST) {
		*err = why;
	}
	return r == -EEXIST ? 0 : r;
}

/* --------------------------------------------------------------------- sockets */

static int set_option(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value)) < 0 ? -errno : 0;
}

static int make_socket(bool ipv6, int type, uint16_t port, int *ret,
		       struct warren_error *err)
{
	AUTO_CLOSE int fd =
		socket(ipv6 ? AF_INET6 : AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	const struct sockaddr *at = ipv6 ? (const void *)&in6 : (const void *)&in;
	int r = fd < 0 ? -errno : 0;

	if (r == 0 && ipv6)
		r = set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
	if (r == 0 && ipv6)
		r = set_option(fd, IPPROTO_IPV6, IPV6_TRANSPARENT, 1);
	if (r == 0)
		r = set_option(fd, IPPROTO_IP, IP_TRANSPARENT, 1);
	/* Connections of an earlier listener may still exist. */
	if (r == 0 && type == SOCK_STREAM)
		r = set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (r == 0 && type == SOCK_DGRAM)
		r = set_option(fd, IPPROTO_IP, IP_RECVORIGDSTADDR, 1);
	if (r == 0 && type == SOCK_DGRAM && ipv6)
		r = set_option(fd, IPPROTO_IPV6, IPV6_RECVORIGDSTADDR, 1);
	if (r == 0 && bind(fd, at, ipv6 ? sizeof(in6) : sizeof(in)) < 0)
		r = -errno;
	if (r == 0 && type == SOCK_STREAM && listen(fd, BACKLOG) < 0)
		r = -errno;
	if (r < 0)
		return error_errno(err, -r, "create a socket for port %u", port);
	*ret = TAKE_FD(fd);
	return 0;
}

/* Set everything up in the current namespace. */
static int capture_here(struct capture *ret, struct warren_error *err)
{
	AUTO_CLOSE int probe = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool ipv6 = probe >= 0;
	int r = 0;

	/* Fail now: otherwise, IPv6 would stay closed only because memory was short. */
	if (!ipv6 && errno != EAFNOSUPPORT)
		return error_errno(err, errno, "create a socket");
	r = ns_loopback(true, err);

	/* Create the sockets first: without them, the rules lead nowhere. */
	if (r == 0)
		r = make_socket(ipv6, SOCK_STREAM, CAPTURE_PORT, &ret->tcp, err);
	if (r == 0)
		r = make_socket(ipv6, SOCK_DGRAM, CAPTURE_DNS_PORT, &ret->udp, err);
	if (r == 0)
		r = set_rules(ipv6, err);
	if (r == 0)
		r = set_routes_of_any(ipv6, err);
	return r;
}

/* ------------------------------------------------------------- entering the namespace */

#define CAPTURE_SELF "/proc/thread-self/ns/net"

/* Is this thread in the namespace @home? If this cannot be determined, return true. */
static bool capture_is_home(int home)
{
	struct stat here, there;

	return stat(CAPTURE_SELF, &here) < 0 || fstat(home, &there) < 0 ||
	       (here.st_ino == there.st_ino && here.st_dev == there.st_dev);
}

/*
 * Returning can fail only while memory is short. Try until it succeeds: otherwise, this
 * thread would continue in the sandbox's network.
 */
static void capture_return(int home)
{
	while (setns(home, CLONE_NEWNET) < 0)
		(void)nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
}

int capture_open(int ns, struct capture *ret, struct warren_error *err)
{
	AUTO_CLOSE int home = open(CAPTURE_SELF, O_RDONLY | O_CLOEXEC);
	struct capture c = CAPTURE_INIT;
	int r;

	*ret = (struct capture)CAPTURE_INIT;
	if (home < 0)
		return error_errno(err, errno, "open the network namespace");
	if (setns(ns, CLONE_NEWNET) < 0)
		return error_errno(err, errno, "enter the sandbox's network");
	/* The process may not have left the network of its creator yet. */
	r = capture_is_home(home)
		    ? error_set(err, EINVAL,
				"the process is in the network of its creator")
		    : capture_here(&c, err);
	capture_return(home);
	if (r < 0) {
		capture_done(&c);
		return r;
	}
	*ret = c;
	return 0;
}

struct capture_report {
	int result;
	struct warren_error err;
};

static int capture_enter_of(int inside, struct warren_error *err)
{
	AUTO_CLOSE int net = ioctl(inside, SIOCGSKNS);
	AUTO_CLOSE int user = net < 0 ? -1 : ioctl(net, NS_GET_USERNS);

	if (user < 0 || setns(user, CLONE_NEWUSER) < 0 || setns(net, CLONE_NEWNET) < 0)
		return error_errno(err, errno, "enter the sandbox's network");
	return 0;
}

static void capture_child(int inside, int sock)
{
	struct capture c = CAPTURE_INIT;
	struct capture_report report = { .err = WARREN_ERROR_INIT };

	report.result = capture_enter_of(inside, &report.err);
	if (report.result == 0)
		report.result = capture_here(&c, &report.err);
	(void)fd_send(sock, &report, sizeof(report), &c.tcp, report.result == 0 ? 2 : 0);
	_exit(0);
}

int capture_open_as_user(int sock, struct capture *ret, struct warren_error *err)
{
	struct capture_report report = { .result = -EIO, .err = WARREN_ERROR_INIT };
	int pair[2], fds[2] = { -1, -1 };
	size_t n_fds = ARRAY_SIZE(fds);
	ssize_t n;
	pid_t pid;

	*ret = (struct capture)CAPTURE_INIT;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_errno(err, errno, "socketpair");
	pid = fork();
	if (pid == 0)
		capture_child(sock, pair[1]);
	(void)close(pair[1]);
	n = pid < 0 ? -errno : fd_recv(pair[0], &report, sizeof(report), fds, &n_fds, 0);
	(void)close(pair[0]);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	ret->tcp = n_fds > 0 ? fds[0] : -1;
	ret->udp = n_fds > 1 ? fds[1] : -1;
	if (n != (ssize_t)sizeof(report))
		report.result = error_errno(err, n < 0 ? (int)-n : EIO,
					    "capture the sandbox's network");
	else if (report.result < 0)
		*err = report.err;
	if (report.result < 0)
		capture_done(ret);
	return report.result;
}

void capture_done(struct capture *c)
{
	if (c->tcp >= 0)
		(void)close(TAKE_FD(c->tcp));
	if (c->udp >= 0)
		(void)close(TAKE_FD(c->udp));
}
