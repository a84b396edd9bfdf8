/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flow.c - a connection of a sandbox, from its start to the decision
 *
 * The first bytes of the client are collected until they show which protocol the
 * connection uses. They are judged together with the destination, and forwarded only
 * after that. If the policy allows every form that the connection can take, the
 * connection to the server is made at once, and the server's bytes are forwarded in the
 * meantime, because in some protocols the server sends first. Otherwise, a client that
 * waits for the server is reset after EGRESS_FIRST_MS.
 */
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>

#include "egress/egress_internal.h"
#include "egress/first.h"

#define FLOW_READ 16384U /* maximum number of first bytes that are read at a time */

/* ---------------------------------------------------------------------- end of a flow */

static void egress_flow_free(void *ctx)
{
	struct egress_flow *f = ctx;

	free(f->name);
	free(f->method);
	free(f->path);
	free(f->shown);
	free(f);
}

static void egress_flow_drop_hello(struct egress_flow *f)
{
	if (f->hello)
		client_hello_done(f->hello);
	free(f->hello);
	f->hello = NULL;
}

void egress_flow_end(struct egress_flow *f)
{
	struct egress_sandbox *sb = f->sandbox;

	if (f->over)
		return;
	f->over = true;
	relay_done(f);
	sockmem_release(f);
	upstream_stop(f);
	end_close(&f->client);
	dns_server_forget(f);
	http_flow_free(f);
	egress_flow_drop_hello(f);
	free(f->socks);
	buf_done(&f->first);
	f->timer = loop_timer_free(f->timer);
	loop_task_cancel(&f->again);
	if (f->number)
		names_release(sb->names, f->number);
	egress_stop_waiting(f);
	DLIST_REMOVE(f);
	egress_count_flow(sb, false);
	f->task.fn = egress_flow_free;
	f->task.ctx = f;
	loop_defer(sb->egress->loop, &f->task);
}

void egress_flow_reset(struct egress_flow *f)
{
	if (f->over)
		return;
	end_reset(&f->server);
	end_reset(&f->client);
	egress_flow_end(f);
}

void egress_flow_deny(struct egress_flow *f, const struct request *q,
		      const struct decision *d, const char *why)
{
	egress_denied(f->sandbox, q, d, why);
	egress_flow_reset(f);
}

void egress_flow_linger(struct egress_flow *f)
{
	relay_done(f);
	upstream_stop(f);
	f->state = EGRESS_FLOW_LINGER;
	end_finish(&f->client);
	if (f->client.ended && f->client.finished)
		egress_flow_end(f);
	else
		egress_flow_set_timer(f, EGRESS_LINGER_MS);
}

/* ------------------------------------------------------------------------- timers */

static void egress_flow_on_timer(void *ctx)
{
	struct egress_flow *f = ctx;
	struct decision d;

	if (f->upstream != UPSTREAM_NONE && f->upstream != UPSTREAM_READY) {
		upstream_stop(f);
		egress_flow_unreachable(f, 504, "connect: Connection timed out");
		if (!f->over)
			egress_flow_update(f);
		return;
	}
	if (f->state == EGRESS_FLOW_OPEN) {
		f->q.opening = true;
		policy_decide(f->sandbox->index, &f->q, &d);
		egress_flow_deny(
			f, &f->q, &d,
			d.allowed
				? "the client sent nothing that shows which "
				  "protocol it uses; allow tcp if the server sends first"
				: NULL);
		return;
	}
	egress_flow_end(f);
}

void egress_flow_set_timer(struct egress_flow *f, uint64_t ms)
{
	if (ms == 0) {
		f->timer = loop_timer_free(f->timer);
		return;
	}
	if (!f->timer && loop_timer_new(f->sandbox->egress->loop, egress_flow_on_timer, f,
					&f->timer) < 0)
		return;
	loop_timer_set(f->timer, ms);
}

/* ------------------------------------------------------------------------- events */

/* Each state has a function that reads from its client. */
static void egress_flow_read_first(struct egress_flow *f);
static void egress_flow_discard(struct egress_flow *f);

static void (*const flow_readers[EGRESS_FLOW_STATES])(struct egress_flow *f) = {
	[EGRESS_FLOW_SOCKS] = front_socks_read,
	[EGRESS_FLOW_DNS] = dns_server_read_tcp,
	[EGRESS_FLOW_OPEN] = egress_flow_read_first,
	[EGRESS_FLOW_TLS] = terminate_continue,
	[EGRESS_FLOW_RAW] = relay_from_client,
	[EGRESS_FLOW_HTTP] = http_flow_from_client,
	[EGRESS_FLOW_LINGER] = egress_flow_discard,
};

static bool egress_flow_wants_client(const struct egress_flow *f)
{
	if (f->client.ended || (f->wait_prev && f->state != EGRESS_FLOW_LINGER))
		return false;
	switch (f->state) {
	case EGRESS_FLOW_OPEN:
		return f->first.len < egress_head_max(f->sandbox) &&
		       f->reply == FRONT_OWES_NOTHING;
	case EGRESS_FLOW_RAW:
		return f->upstream == UPSTREAM_READY && !end_has_queue(&f->server) &&
		       (!f->pipe_out || !f->pipe_out->held);
	case EGRESS_FLOW_HTTP:
		return http_flow_wants_client(f);
	case EGRESS_FLOW_DNS:
		return !f->dns_op && !end_has_queue(&f->client);
	case EGRESS_FLOW_TLS:
		return !f->client.tls_writes;
	case EGRESS_FLOW_SOCKS:
	case EGRESS_FLOW_LINGER:
	case EGRESS_FLOW_STATES:
		break;
	}
	return true;
}

bool egress_flow_wants_server(const struct egress_flow *f)
{
	return f->upstream == UPSTREAM_READY && !f->server.ended && !f->wait_prev &&
	       !end_has_queue(&f->client) && (!f->pipe_in || !f->pipe_in->held) &&
	       f->state != EGRESS_FLOW_LINGER;
}

static void egress_flow_on_again(void *ctx);

void egress_flow_update(struct egress_flow *f)
{
	bool push_out = f->pipe_out && f->pipe_out->held;
	bool push_in = f->pipe_in && f->pipe_in->held;

	if (f->over)
		return;
	end_watch(&f->client,
		  (egress_flow_wants_client(f) ? LOOP_READ : 0U) |
			  (end_has_queue(&f->client) || push_in || f->client.tls_writes
				   ? LOOP_WRITE
				   : 0U));
	if (f->upstream == UPSTREAM_READY)
		end_watch(&f->server,
			  (egress_flow_wants_server(f) ? LOOP_READ : 0U) |
				  (end_has_queue(&f->server) || push_out ? LOOP_WRITE
									 : 0U));
	/* No event arrives for bytes that are already decrypted. */
	if ((end_has_data(&f->client) && egress_flow_wants_client(f)) ||
	    (end_has_data(&f->server) && egress_flow_wants_server(f))) {
		f->again.fn = egress_flow_on_again;
		f->again.ctx = f;
		loop_later(f->sandbox->egress->loop, &f->again);
	}
}

static void egress_flow_on_client(void *ctx, unsigned events)
{
	struct egress_flow *f = ctx;

	if ((events & LOOP_WRITE) && end_has_queue(&f->client) &&
	    end_flush(&f->client) < 0) {
		egress_flow_end(f);
		return;
	}
	if ((events & LOOP_WRITE) && f->client.tls_writes)
		terminate_continue(f);
	if (events & LOOP_WRITE)
		relay_push_client(f);
	if (!f->over && (events & LOOP_READ) && egress_flow_wants_client(f) &&
	    f->state < EGRESS_FLOW_STATES)
		flow_readers[f->state](f);
	if (!f->over && f->state == EGRESS_FLOW_LINGER && f->client.ended &&
	    !end_has_queue(&f->client))
		egress_flow_end(f);
	if (!f->over)
		egress_flow_update(f);
}

static void egress_flow_on_again(void *ctx)
{
	struct egress_flow *f = ctx;

	if (end_has_data(&f->server) && egress_flow_wants_server(f))
		relay_on_server(f, LOOP_READ);
	if (!f->over && end_has_data(&f->client) && egress_flow_wants_client(f))
		flow_readers[f->state](f);
	if (!f->over)
		egress_flow_update(f);
}

static void egress_flow_discard(struct egress_flow *f)
{
	ssize_t n = end_read(&f->client, f->sandbox->egress->scratch, EGRESS_SCRATCH);

	if (n == 0 || (n < 0 && n != -EAGAIN))
		egress_flow_end(f);
}

/* -------------------------------------------------------------------- destination */

bool egress_flow_set_host(struct egress_flow *f, const struct host *h, uint16_t port)
{
	const char *name = NULL;
	uint32_t number = 0;

	if (f->number)
		names_release(f->sandbox->names, f->number);
	f->number = 0;
	free(f->name);
	f->name = NULL;
	f->q = (struct request){ .host = *h, .port = port };
	if (h->kind == HOST_NAME) {
		f->name = strndup(h->name, h->len);
	} else if (names_number(&h->net, &number)) {
		name = names_get(f->sandbox->names, number);
		f->name = name ? strdup(name) : NULL;
		if (f->name) {
			f->q.host = (struct host){ .kind = HOST_NAME,
						   .len = (uint8_t)strlen(f->name) };
			f->number = number;
			names_hold(f->sandbox->names, number);
		}
	} else {
		return true;
	}
	f->q.host.name = f->name;
	return f->name != NULL;
}

bool egress_flow_set_request(struct egress_flow *f, const char *method, const char *path)
{
	free(f->method);
	free(f->path);
	f->q.method = f->method = method ? strdup(method) : NULL;
	f->q.path = f->path = path ? strdup(path) : NULL;
	return (!method || f->method) && (!path || f->path);
}

/* Does the policy allow the flow, whatever it turns out to be? */
static bool egress_flow_allows_all(const struct egress_flow *f)
{
	struct request q = f->q;
	struct decision d;

	q.opening = false;
	q.protocol = RULE_TCP;
	q.method = q.path = NULL;
	policy_decide(f->sandbox->index, &q, &d);
	return d.allowed && !terminate_wants(f);
}

static void egress_flow_classify(struct egress_flow *f);

/* A client of a proxy may have sent its first bytes before the proxy's reply. */
static void egress_flow_use_first(struct egress_flow *f)
{
	if (!f->over && f->state == EGRESS_FLOW_OPEN && f->reply == FRONT_OWES_NOTHING &&
	    f->first.len)
		egress_flow_classify(f);
}

void egress_flow_open(struct egress_flow *f)
{
	struct decision d;

	f->state = EGRESS_FLOW_OPEN;
	f->q.opening = true;
	f->q.protocol = 0;
	policy_decide(f->sandbox->index, &f->q, &d);
	f->q.opening = false;
	f->doomed = !d.allowed;
	if (f->doomed && f->reply != FRONT_OWES_NOTHING) {
		AUTO_BUF struct buf text = BUF_INIT(2048);

		f->q.opening = true;
		egress_denied(f->sandbox, &f->q, &d, NULL);
		egress_put_reason(&f->q, &d, &text);
		front_reply(f, 403, text.data ? text.data : "");
		return;
	}
	egress_flow_set_timer(f, f->doomed ? EGRESS_DOOMED_MS : EGRESS_FIRST_MS);
	if (!f->doomed && egress_flow_allows_all(f)) {
		f->q.protocol = RULE_TCP;
		upstream_start(f);
	} else if (f->reply != FRONT_OWES_NOTHING) {
		front_reply(f, 200, "");
		egress_flow_use_first(f);
	}
}

/* -------------------------------------------------------------------- first bytes */

void egress_flow_record(struct egress_flow *f)
{
	/* If the server sends first, the request is known before the client sends. */
	bool known = f->state == EGRESS_FLOW_RAW || f->state == EGRESS_FLOW_HTTP ||
		     (f->state == EGRESS_FLOW_OPEN && f->server_spoke);

	if (known && f->upstream == UPSTREAM_READY)
		record_use(&f->sandbox->record, &f->q);
}

/* The decision is final: forward the data as raw bytes. */
static void egress_flow_go_raw(struct egress_flow *f)
{
	f->state = EGRESS_FLOW_RAW;
	egress_flow_record(f);
	egress_flow_drop_hello(f);
	if (f->upstream == UPSTREAM_READY)
		relay_start(f);
	else if (f->upstream == UPSTREAM_NONE)
		upstream_start(f);
}

static void egress_flow_judge_raw(struct egress_flow *f, uint8_t protocol)
{
	struct decision d;

	f->q.protocol = protocol;
	policy_decide(f->sandbox->index, &f->q, &d);
	if (d.allowed)
		egress_flow_go_raw(f);
	else
		egress_flow_deny(f, &f->q, &d, NULL);
}

/*
 * The client connected to an address, and now sends a name. The address was allowed, but
 * a rule may deny the name. Return false if a rule does, and the flow was denied.
 */
static bool egress_flow_check_shown(struct egress_flow *f, const struct host *shown)
{
	struct request q = f->q;
	struct decision d;

	q.host = *shown;
	q.has_address = false;
	policy_decide(f->sandbox->index, &q, &d);
	if (d.allowed || d.why != DECISION_RULE)
		return true;
	egress_flow_deny(f, &q, &d, NULL);
	return false;
}

/* The ClientHello is complete. */
static void egress_flow_judge_tls(struct egress_flow *f)
{
	char name[HOST_TEXT_SIZE];
	struct host shown = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	const struct client_hello *h = f->hello;
	bool valid = h->name_len &&
		     host_parse_single(h->name, h->name_len, name, &shown, &err) == 0;

	f->q.protocol = f->q.port == 443 ? RULE_HTTPS : RULE_TLS;
	if (!valid || shown.kind != HOST_NAME) {
		/*
		 * Without a name, nothing shows that the rule applies to this connection.
		 * Some clients send an address as the name.
		 */
		if (!h->name_len || (valid && f->q.host.kind == HOST_NET))
			egress_flow_judge_raw(f, RULE_TCP);
		else
			egress_flow_deny(f, &f->q, &(struct decision){ 0 },
					 "the name in the TLS handshake is malformed");
		return;
	}
	if (f->q.host.kind == HOST_NAME && host_compare(&shown, &f->q.host) != 0) {
		egress_flow_deny(f, &f->q, &(struct decision){ 0 },
				 "the TLS handshake names another host");
		return;
	}
	if (f->q.host.kind == HOST_NET) {
		f->shown = strndup(shown.name, shown.len);
		if (!f->shown) {
			egress_flow_reset(f);
			return;
		}
		if (!egress_flow_check_shown(f, &shown))
			return;
	}
	if (terminate_wants(f)) {
		egress_flow_drop_hello(f);
		terminate_start(f);
		return;
	}
	/* The encrypted name could be one that a rule denies. */
	if (h->ech && f->sandbox->denies_names) {
		egress_flow_deny(f, &f->q, &(struct decision){ 0 },
				 "the TLS handshake has an encrypted name (ECH), and a "
				 "rule denies a name");
		return;
	}
	egress_flow_judge_raw(f, f->q.protocol);
}

/* Neither HTTP nor TLS, or in a form that some servers read differently. */
static void egress_flow_judge_odd(struct egress_flow *f)
{
	egress_flow_deny(f, &f->q, &(struct decision){ 0 },
			 f->sandbox->denies_names
				 ? "a server could read the first bytes as HTTP or TLS, "
				   "with a name that a rule denies"
				 : "there is whitespace before an HTTP request");
}

static void egress_flow_judge_other(struct egress_flow *f)
{
	if (f->sandbox->denies_names)
		egress_flow_judge_odd(f);
	else
		egress_flow_judge_raw(f, RULE_TCP);
}

static void egress_flow_feed_hello(struct egress_flow *f)
{
	int r;

	if (!f->hello) {
		f->hello = malloc(sizeof(*f->hello));
		if (!f->hello) {
			egress_flow_reset(f);
			return;
		}
		*f->hello = (struct client_hello)CLIENT_HELLO_INIT;
	}
	r = client_hello_feed(f->hello, (const uint8_t *)f->first.data + f->first_fed,
			      f->first.len - f->first_fed);
	f->first_fed = f->first.len;
	if (r > 0)
		egress_flow_judge_tls(f);
	else if (r < 0 || f->client.ended)
		egress_flow_judge_other(f);
}

static bool egress_flow_may_be_tls(const struct egress_flow *f)
{
	return f->first.len > 0 && f->first.data[0] == 0x16;
}

static void egress_flow_classify(struct egress_flow *f)
{
	bool wary = f->sandbox->denies_names;
	enum first_kind kind = first_classify(f->first.data, f->first.len, wary);

	if (kind == FIRST_MORE && f->client.ended)
		kind = wary && f->first.len ? FIRST_ODD : FIRST_OTHER;
	/* The server may also wait for more bytes. */
	if (kind == FIRST_MORE && wary && f->first.len && f->upstream == UPSTREAM_READY)
		egress_flow_set_timer(f, EGRESS_FIRST_MS);
	/* A server that sends first does not use HTTP. */
	if (f->server_spoke &&
	    (kind == FIRST_HTTP || (!wary && !egress_flow_may_be_tls(f))))
		kind = FIRST_OTHER;
	if (kind == FIRST_TLS)
		egress_flow_feed_hello(f);
	else if (kind == FIRST_OTHER)
		egress_flow_judge_raw(f, RULE_TCP);
	else if (kind == FIRST_ODD)
		egress_flow_judge_odd(f);
	else if (kind == FIRST_HTTP && !http_flow_start(f, false))
		egress_flow_reset(f);
}

static void egress_flow_read_first(struct egress_flow *f)
{
	size_t max = egress_head_max(f->sandbox), want = max - f->first.len;
	char *at;
	ssize_t n;

	want = egress_allowance(f, want < FLOW_READ ? want : FLOW_READ);
	if (want == 0)
		return;
	at = buf_reserve(&f->first, want);
	n = at ? end_read(&f->client, at, want) : -ENOMEM;
	if (n == -EAGAIN)
		return;
	if (n < 0) {
		egress_flow_reset(f);
		return;
	}
	f->first.len += (size_t)n;
	if (n == 0 && f->first.len == 0 && f->upstream == UPSTREAM_NONE) {
		egress_flow_end(f); /* the client has already closed the connection */
		return;
	}
	if (f->first.len >= max)
		egress_flow_judge_other(f);
	else
		egress_flow_classify(f);
}

/* ----------------------------------------------------------- connection to the server */

void egress_flow_connected(struct egress_flow *f)
{
	if (f->reply != FRONT_OWES_NOTHING)
		front_reply(f, 200, "");
	if (f->over)
		return;
	egress_flow_record(f);
	if (f->state == EGRESS_FLOW_RAW)
		relay_start(f);
	else if (f->state == EGRESS_FLOW_HTTP)
		http_flow_connected(f);
	else
		egress_flow_use_first(f);
}

void egress_flow_unreachable(struct egress_flow *f, int status, const char *why)
{
	if (f->reply != FRONT_OWES_NOTHING)
		front_reply(f, status, why);
	else if (f->state == EGRESS_FLOW_HTTP)
		http_flow_fail(f, status, why);
	else
		egress_flow_reset(f);
}

void egress_flow_address_denied(struct egress_flow *f, const struct request *q,
				const struct decision *d)
{
	AUTO_BUF struct buf text = BUF_INIT(2048);

	egress_denied(f->sandbox, q, d, NULL);
	egress_put_reason(q, d, &text);
	egress_flow_unreachable(f, 403, text.data ? text.data : "");
}

/* ---------------------------------------------------------------- changes of policy */

void egress_flow_judge_again(struct egress_flow *f)
{
	struct decision d;
	struct host shown = { .kind = HOST_NAME, .name = f->shown };

	if (f->state == EGRESS_FLOW_SOCKS || f->state == EGRESS_FLOW_DNS ||
	    f->state == EGRESS_FLOW_LINGER)
		return;
	/* The first bytes have not been judged yet, or a proxy has no request yet:
	 * nothing has been allowed. */
	if (f->q.protocol == 0)
		return;
	/* Between two requests, only a rule that denies the whole host matters. */
	f->q.opening = !f->q.method &&
		       (f->state == EGRESS_FLOW_HTTP || f->state == EGRESS_FLOW_TLS);
	policy_decide(f->sandbox->index, &f->q, &d);
	f->q.opening = false;
	if (!d.allowed) {
		egress_flow_deny(f, &f->q, &d, NULL);
		return;
	}
	/* TLS that was forwarded as it is has requests that are not inspected. */
	if (f->state == EGRESS_FLOW_RAW && !f->client.tls &&
	    (f->q.protocol & (RULE_HTTPS | RULE_TLS)) && terminate_wants(f)) {
		egress_flow_deny(f, &f->q, &d, "TLS to this host is now terminated");
		return;
	}
	if (f->shown) {
		shown.len = (uint8_t)strlen(f->shown);
		(void)egress_flow_check_shown(f, &shown);
	}
}

/* -------------------------------------------------------------------- start of a flow */

static void egress_flow_begin(struct egress_flow *f, const struct address_net *to,
			      uint16_t port)
{
	struct host h;
	uint32_t number = 0;
	bool stands = names_number(to, &number);
	bool known = stands && names_get(f->sandbox->names, number);

	host_of_address(to, &h);
	if (port == EGRESS_PORT_DNS && !known) {
		f->state = EGRESS_FLOW_DNS;
		egress_flow_set_timer(f, EGRESS_DNS_MS);
	} else if (stands && number == NAMES_SELF && port == EGRESS_PORT_SOCKS) {
		f->state = EGRESS_FLOW_SOCKS;
		egress_flow_set_timer(f, EGRESS_FIRST_MS);
	} else if (stands && number == NAMES_SELF && port == EGRESS_PORT_PROXY) {
		if (!http_flow_start(f, true))
			egress_flow_reset(f);
	} else if (egress_flow_set_host(f, &h, port)) {
		egress_flow_open(f);
	} else {
		egress_flow_deny(f, &f->q, &(struct decision){ .why = DECISION_SPECIAL },
				 "the address does not stand for a name any more");
	}
}

void egress_flow_accept(struct egress_sandbox *sb, int fd)
{
	struct egress_flow *f = calloc(1, sizeof(*f));
	struct end refused = { .fd = fd };
	union resolver_address local = { 0 };
	socklen_t size = sizeof(local);
	struct address_net to;
	const int on = 1;

	if (!f || getsockname(fd, &local.sa, &size) < 0 ||
	    !address_widen(&local.sa, &to)) {
		free(f);
		end_reset(&refused);
		return;
	}
	f->sandbox = sb;
	f->server = (struct end)END_INIT;
	f->first = (struct buf)BUF_INIT(EGRESS_HEAD_MAX + FLOW_READ);
	f->since = loop_now(sb->egress->loop);
	if (end_open(&f->client, sb->egress->loop, fd, egress_flow_on_client, f) < 0) {
		free(f);
		return;
	}
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	f->moved_next = SOCKMEM_STEP;
	sockmem_fix(f, fd);
	DLIST_PUSH(sb->flows, f);
	egress_count_flow(sb, true);
	/* Both address families have the port at the same position. */
	egress_flow_begin(f, &to, ntohs(local.v6.sin6_port));
	if (!f->over)
		egress_flow_update(f);
}
