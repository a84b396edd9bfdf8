/* SPDX-License-Identifier: Apache-2.0 */
/* egress_internal.h - sandboxes and flows, shared by the files of this folder */
#ifndef EGRESS_EGRESS_INTERNAL_H
#define EGRESS_EGRESS_INTERNAL_H

#include "base/list.h"
#include "egress/account.h"
#include "egress/egress.h"
#include "egress/end.h"
#include "egress/lookup.h"
#include "egress/names.h"
#include "egress/pipes.h"
#include "egress/record.h"
#include "egress/resolver.h"
#include "egress/sockmem.h"
#include "egress/terminate.h"
#include "network/client_hello.h"
#include "network/decide.h"
#include "network/socks.h"

#define EGRESS_BUCKETS 1024
#define EGRESS_SCRATCH (64U << 10)
/* Maximum number of bytes that one callback moves without copying them. */
#define EGRESS_TURN_MAX (2U << 20)

#define EGRESS_PORT_DNS   53
#define EGRESS_PORT_PROXY 3128
#define EGRESS_PORT_SOCKS 1080

/* Memory for the buffers of all flows of a sandbox, and for what they have to parse. */
#define EGRESS_BUFFERS   (16U << 20)
#define EGRESS_HEADS     (64U << 20)
#define EGRESS_HEAD_MAX  (CLIENT_HELLO_WIRE_MAX + 1024)
#define EGRESS_SHARE_MIN 4096

/* Times, in ms. */
#define EGRESS_CONNECT_MS 10000
#define EGRESS_FIRST_MS   10000 /* time for the first bytes of a client */
#define EGRESS_DOOMED_MS  250   /* the same, if the bytes cannot change the decision */
#define EGRESS_DNS_MS     10000 /* time for the next query over TCP */
#define EGRESS_LINGER_MS  2000  /* time for the client to read the last answer */

struct egress {
	struct net_loop *loop;
	struct egress_options options;
	struct resolver *resolver;
	struct lookups *lookups;
	struct pipes *pipes;
	struct terminate *terminate; /* NULL: there is no authority */
	struct egress_sandbox *buckets[EGRESS_BUCKETS];
	struct egress_sandbox *changed; /* list of those whose usage has changed */
	size_t n_sandboxes;
	size_t n_flows;               /* of all sandboxes */
	size_t n_busy;                /* sandboxes that have a flow */
	struct egress_flow *grown;    /* flows with large buffers (sockmem.h) */
	size_t n_grown, grants;       /* their number, and its maximum */
	char scratch[EGRESS_SCRATCH]; /* for one callback at a time */
};

struct egress_sandbox {
	struct egress_sandbox *next, **prev;                 /* in a bucket */
	struct egress_sandbox *changed_next, **changed_prev; /* NULL: not changed */
	struct egress *egress;
	char id[16];
	char *policy_text; /* to recognise a change to the same policy */
	size_t policy_len;
	struct policy policy;
	struct policy_index *index;
	bool denies_names; /* the first bytes must not hide such a name (first.h) */
	int tcp, udp;
	struct loop_watch *tcp_watch, *udp_watch;
	struct loop_timer *timer; /* continues what had to wait: flows, accept(2) */
	struct loop_task cut;     /* all bytes are used: resets all flows */
	struct names *names;
	struct account account;
	struct record record;
	struct egress_flow *flows;
	size_t n_flows, n_grown;
	int buffer_size; /* of the next connections (sockmem.h) */
	struct egress_flow *waiting, **waiting_tail; /* flows that wait for tokens */
	struct lookup_client *lookups;
	struct dns_op *dns_ops; /* queries whose names are being resolved */
	size_t n_dns_ops;
	uint64_t told_since; /* ms; when the first of @n_told denials was reported */
	unsigned n_told;
	char *dns_denied; /* the last name that was denied; it is asked for twice */
};

/*
 * The state of a flow. The state of its upstream is separate: a flow in FLOW_OPEN has one
 * if its policy allows every form that the flow can take.
 */
enum egress_flow_state {
	/* The client speaks SOCKS to warren-egress; then FLOW_OPEN. */
	EGRESS_FLOW_SOCKS,
	/* The client speaks DNS to warren-egress, until the flow ends. */
	EGRESS_FLOW_DNS,
	/* The destination is known, and nothing was forwarded. Collects the first bytes
	 * of the client; then FLOW_RAW, FLOW_HTTP or a reset. */
	EGRESS_FLOW_OPEN,
	/* The client's TLS is terminated, and its handshake is in progress
	 * (terminate.c); then FLOW_HTTP. */
	EGRESS_FLOW_TLS,
	/* Allowed; all bytes are forwarded as they are. */
	EGRESS_FLOW_RAW,
	/* Each request is judged and written anew (http_flow.c). A CONNECT leads to
	 * FLOW_OPEN, an accepted upgrade to FLOW_RAW. */
	EGRESS_FLOW_HTTP,
	/* The last answer was sent. Bytes from the client are discarded until it closes.
	 */
	EGRESS_FLOW_LINGER,
	EGRESS_FLOW_STATES,
};

enum upstream_state {
	UPSTREAM_NONE,
	UPSTREAM_RESOLVING,
	UPSTREAM_CONNECTING,
	UPSTREAM_SECURING, /* connected; the TLS handshake is in progress */
	UPSTREAM_READY,
};

/* The reply that tells the client of a proxy whether its destination was reached. */
enum front_owed {
	FRONT_OWES_NOTHING,
	FRONT_OWES_CONNECT,
	FRONT_OWES_SOCKS,
};

struct http_flow;

struct egress_flow {
	struct egress_flow *next, **prev;
	struct egress_sandbox *sandbox;
	enum egress_flow_state state;
	enum upstream_state upstream;
	enum front_owed reply; /* owed to the client */
	struct end client, server;
	struct loop_timer *timer;
	struct loop_task task; /* frees the flow */
	/* Reads bytes that are already decrypted. */
	struct loop_task again;
	/* The flow has ended, and will be freed. */
	bool over;
	struct egress_flow *wait_next, **wait_prev; /* while it waits for tokens */
	bool doomed; /* will be denied, whatever the first bytes are */
	/* In EGRESS_FLOW_OPEN: the server sent bytes before the client. */
	bool server_spoke;
	uint32_t number; /* number of the destination's name; 0: none */

	/*
	 * What was judged last: the destination, and what the client does there. `q.host`
	 * is in @name, `q.method` and `q.path` are in their own memory.
	 */
	struct request q;
	char *name, *method, *path;
	char *shown; /* the name that a client of an address sent in its first bytes */

	/* upstream.c */
	struct lookup lookup;
	/* Allowed addresses, in the order in which they are tried. */
	union resolver_address *addresses;
	size_t n_addresses, at_address;

	struct buf first; /* bytes of the client that were not forwarded yet */
	size_t first_fed; /* number of these bytes that @hello has seen */
	struct client_hello *hello;
	struct socks *socks;
	struct http_flow *http;
	struct dns_op *dns_op;
	struct pipe_pair *pipe_out, *pipe_in; /* while relay.c splices */

	uint64_t since, bytes_in, bytes_out;

	/* sockmem.c */
	struct egress_flow *grown_next, **grown_prev; /* NULL: its buffers are small */
	uint64_t moved;                               /* ms; when it last carried bytes */
	uint64_t moved_next; /* number of bytes at which the flow is checked again */
};

/* The share of one flow: the more flows a sandbox has, the less memory each may use. */
static inline size_t egress_share(const struct egress_sandbox *sb, size_t all, size_t max)
{
	size_t share = all / (sb->n_flows + 1);

	if (share > max)
		return max;
	return share < EGRESS_SHARE_MIN ? EGRESS_SHARE_MIN : share;
}
/* How much may be read at a time. */
static inline size_t egress_buffer_max(const struct egress_sandbox *sb)
{
	return egress_share(sb, EGRESS_BUFFERS, EGRESS_SCRATCH);
}
/* How long a ClientHello or the head of a request may be. */
static inline size_t egress_head_max(const struct egress_sandbox *sb)
{
	return egress_share(sb, EGRESS_HEADS, EGRESS_HEAD_MAX);
}

/* ---------------------------------------------------------------------- egress.c */

void egress_usage_changed(struct egress_sandbox *sb);
/* Count bytes that came from the server (in) or are for the server (out). */
void egress_count(struct egress_flow *f, uint64_t in, uint64_t out);
/*
 * Count a message of DNS. False: too few bytes are left, so it must not be used, and is
 * not counted.
 */
bool egress_count_message(struct egress_sandbox *sb, uint64_t in, uint64_t out);
/* How much may be read now; 0: the flow is resumed later. */
size_t egress_allowance(struct egress_flow *f, size_t want);
/* Remove the flow from the list of waiting flows. */
void egress_stop_waiting(struct egress_flow *f);
/* Record a denial. @why replaces the text of the decision if it is not NULL. */
void egress_denied(struct egress_sandbox *sb, const struct request *q,
		   const struct decision *d, const char *why);

/* ------------------------------------------------------------------------ flow.c */

/* Serve an accepted connection. Takes @fd. */
void egress_flow_accept(struct egress_sandbox *sb, int fd);
/* Close both sockets. The memory is freed later; @f->over is set. */
void egress_flow_end(struct egress_flow *f);
/* Like egress_flow_end(), but the client sees a reset. */
void egress_flow_reset(struct egress_flow *f);
/* Record that @q is denied, and reset the flow. */
void egress_flow_deny(struct egress_flow *f, const struct request *q,
		      const struct decision *d, const char *why);
/* Send queued bytes, then discard what the client sends until it closes. */
void egress_flow_linger(struct egress_flow *f);
void egress_flow_set_timer(struct egress_flow *f, uint64_t ms); /* 0: none */
/* Watch the events that the state needs. */
void egress_flow_update(struct egress_flow *f);
bool egress_flow_wants_server(const struct egress_flow *f);
/*
 * Set the destination. An address that stands for a name becomes that name. False: it
 * stands for no known name, or there is no memory.
 */
bool egress_flow_set_host(struct egress_flow *f, const struct host *h, uint16_t port);
/* Continue when the destination is known: judge it as far as possible. */
void egress_flow_open(struct egress_flow *f);
/* Judge again by a new policy. */
void egress_flow_judge_again(struct egress_flow *f);
/* Remember what the client does, for egress_flow_judge_again(). False: no memory. */
bool egress_flow_set_request(struct egress_flow *f, const char *method, const char *path);
/*
 * Record the use of the destination, if the request is known and the server is connected.
 * Call this after each of these two events. A destination that could not be reached is
 * not recorded.
 */
void egress_flow_record(struct egress_flow *f);
/* upstream.c calls these with its result. */
void egress_flow_connected(struct egress_flow *f);
void egress_flow_unreachable(struct egress_flow *f, int status, const char *why);
void egress_flow_address_denied(struct egress_flow *f, const struct request *q,
				const struct decision *d);

/* -------------------------------------------------------------------- upstream.c */

/* Resolve the destination of @f->q, and connect to one of its allowed addresses. */
void upstream_start(struct egress_flow *f);
/* Close the upstream, or cancel the attempt to connect. */
void upstream_stop(struct egress_flow *f);

/* ----------------------------------------------------------------------- front.c */

void front_socks_read(struct egress_flow *f);
/* Answer the client of a proxy. @status is an HTTP status; 200 means success. */
void front_reply(struct egress_flow *f, int status, const char *why);

/* ----------------------------------------------------------------------- relay.c */

void relay_from_client(struct egress_flow *f);
/*
 * Send the client bytes that relay.c has read from the server and could not send before.
 */
void relay_push_client(struct egress_flow *f);
void relay_on_server(struct egress_flow *f, unsigned events);
/* Forward the first bytes, and begin to relay. */
void relay_start(struct egress_flow *f);
/*
 * Splice the body of an HTTP response: take a pipe for it (false: there is none left),
 * move at most @max bytes into the empty pipe, and send the bytes in the pipe.
 * relay_body() returns the number of bytes; 0: the server has closed; -EAGAIN; -EPIPE:
 * the client has gone; another -errno: the server has. relay_push_body() returns 0 when
 * the pipe is empty, or -EAGAIN or -EPIPE.
 */
bool relay_begin_body(struct egress_flow *f);
ssize_t relay_body(struct egress_flow *f, uint64_t max);
int relay_push_body(struct egress_flow *f);
void relay_done(struct egress_flow *f);

/* ------------------------------------------------------------------- http_flow.c */

/* @proxy: the requests name their hosts. */
bool http_flow_start(struct egress_flow *f, bool proxy);
void http_flow_from_client(struct egress_flow *f);
void http_flow_from_server(struct egress_flow *f);
/* The client accepts bytes again, and there are some in the pipe. */
void http_flow_push_body(struct egress_flow *f);
/* The server does not accept more of the request. */
void http_flow_server_broken(struct egress_flow *f);
bool http_flow_wants_client(const struct egress_flow *f);
void http_flow_connected(struct egress_flow *f);
/* Answer with @status and a text, and close. */
void http_flow_fail(struct egress_flow *f, int status, const char *why);
void http_flow_free(struct egress_flow *f);

/* ------------------------------------------------------------------ dns_server.c */

void dns_server_on_udp(void *ctx, unsigned events);
void dns_server_read_tcp(struct egress_flow *f);
/* Called when a flow ends: drop its query without an answer. */
void dns_server_forget(struct egress_flow *f);
/* Called when a sandbox ends: drop all its queries without an answer. */
void dns_server_stop(struct egress_sandbox *sb);

/* egress.c: count a flow that begins or ends. */
void egress_count_flow(struct egress_sandbox *sb, bool more);
/*
 * Like decision_text(), for the sandbox: without the addresses of names, which may be
 * those of an internal network.
 */
void egress_put_reason(const struct request *q, const struct decision *d,
		       struct buf *out);

#endif /* EGRESS_EGRESS_INTERNAL_H */
