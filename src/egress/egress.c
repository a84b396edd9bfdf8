/* SPDX-License-Identifier: Apache-2.0 */
/* egress.c - sandboxes: their listeners, policies, limits and usage */
#include "egress/egress.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "egress/egress_internal.h"
#include "network/policy_json.h"

#define EGRESS_ACCEPT_TURN  16 /* maximum number of connections in one callback */
#define EGRESS_ACCEPT_PAUSE 50 /* in ms, when there are no descriptors left */
#define EGRESS_TOLD_MAX     16 /* maximum number of denials that are reported per second */
/* Maximum number of flows that get new tokens at a time. */
#define EGRESS_RESUME_TURN 64
#define EGRESS_LIVE_MAX    256 /* maximum number of flows that egress_write_json() lists */
#define EGRESS_DESCRIPTORS UINT64_C(512) /* reserved for uses other than flows */

static void egress_on_tcp(void *ctx, unsigned events);

/* --------------------------------------------------------------------------- usage */

void egress_usage_changed(struct egress_sandbox *sb)
{
	if (!sb->changed_prev)
		DLIST_PUSH_BY(sb->egress->changed, sb, changed_next, changed_prev);
}

size_t egress_take_usage(struct egress *e, struct egress_usage_row *rows, size_t n)
{
	size_t got = 0;

	for (struct egress_sandbox *sb;
	     (sb = e->changed) && sb->changed_prev && got < n;) {
		DLIST_REMOVE_BY(sb, changed_next, changed_prev);
		(void)memcpy(rows[got].id, sb->id, sizeof(sb->id));
		rows[got++].usage = account_usage(&sb->account, sb->account.leased);
	}
	return got;
}

/* May a denial be reported? A sandbox that is denied all the time must not crowd out the
 * reports of others. */
static bool egress_may_tell(struct egress_sandbox *sb)
{
	uint64_t now = loop_now(sb->egress->loop);

	if (now >= sb->told_since + 1000) {
		sb->told_since = now;
		sb->n_told = 0;
	}
	return sb->n_told++ < EGRESS_TOLD_MAX;
}

void egress_denied(struct egress_sandbox *sb, const struct request *q,
		   const struct decision *d, const char *why)
{
	const char *json;

	sb->account.usage.denied++;
	egress_usage_changed(sb);
	if (q->host.kind == HOST_NAME && !q->host.name)
		return; /* a request to the proxy that names no host */
	json = record_denial(&sb->record, q, d, why);
	if (json && sb->egress->options.denied && egress_may_tell(sb))
		sb->egress->options.denied(sb->egress->options.ctx, sb->id, json);
}

static void egress_cut(void *ctx)
{
	struct egress_sandbox *sb = ctx;

	while (sb->flows)
		egress_flow_reset(sb->flows);
}

/*
 * Lease @want bytes or more from the service. If the message cannot be sent now, the
 * bytes are not used.
 */
static void egress_lease(struct egress_sandbox *sb, uint64_t want)
{
	const struct egress_options *o = &sb->egress->options;
	struct account *a = &sb->account;
	struct egress_usage_row row = { 0 };
	uint64_t next;

	if (!account_wants_lease(a, want))
		return;
	next = account_next_lease(a, want);
	(void)memcpy(row.id, sb->id, sizeof(sb->id));
	row.usage = account_usage(a, next);
	if (!o->lease || o->lease(o->ctx, &row))
		a->leased = next;
}

void egress_count(struct egress_flow *f, uint64_t in, uint64_t out)
{
	struct egress_sandbox *sb = f->sandbox;

	f->bytes_in += in;
	f->bytes_out += out;
	account_add(&sb->account, in, out);
	sockmem_moved(f);
	egress_usage_changed(sb);
	if (account_is_exhausted(&sb->account))
		loop_defer(sb->egress->loop, &sb->cut);
}

bool egress_count_message(struct egress_sandbox *sb, uint64_t in, uint64_t out)
{
	egress_lease(sb, in + out);
	if (!account_add_message(&sb->account, in, out))
		return false;
	egress_usage_changed(sb);
	if (account_is_exhausted(&sb->account))
		loop_defer(sb->egress->loop, &sb->cut);
	return true;
}

size_t egress_allowance(struct egress_flow *f, size_t want)
{
	struct egress_sandbox *sb = f->sandbox;
	uint64_t n;

	egress_lease(sb, 0);
	n = account_allowance(&sb->account, want, loop_now(sb->egress->loop));
	if (n > 0 || f->wait_prev)
		return (size_t)n;
	if (!sb->waiting)
		loop_timer_set(sb->timer, ACCOUNT_REFILL_MS);
	DQUEUE_PUT_BY(sb->waiting_tail, f, wait_next, wait_prev);
	return 0;
}

void egress_stop_waiting(struct egress_flow *f)
{
	if (f->wait_prev)
		DQUEUE_REMOVE_BY(f->sandbox->waiting_tail, f, wait_next, wait_prev);
}

/*
 * There are new tokens, or descriptors may be free again. Only the first waiting flows
 * continue, because there are not enough tokens for thousands.
 */
static void egress_on_timer(void *ctx)
{
	struct egress_sandbox *sb = ctx;

	(void)loop_watch_set(sb->tcp_watch, LOOP_READ);
	for (int i = 0; sb->waiting && i < EGRESS_RESUME_TURN; i++) {
		struct egress_flow *f = sb->waiting;

		egress_stop_waiting(f);
		egress_flow_update(f);
	}
	if (sb->waiting)
		loop_timer_set(sb->timer, ACCOUNT_REFILL_MS);
}

/* ---------------------------------------------------------------------- listeners */

void egress_count_flow(struct egress_sandbox *sb, bool more)
{
	struct egress *e = sb->egress;

	if (more && sb->n_flows++ == 0)
		e->n_busy++;
	if (!more && --sb->n_flows == 0)
		e->n_busy--;
	e->n_flows += more ? 1 : (size_t)-1;
}

/* Return how many flows all sandboxes together may have; each needs two descriptors. */
static uint64_t egress_flows_all(const struct egress *e)
{
	uint64_t reserved = EGRESS_DESCRIPTORS + 2 * e->n_sandboxes;
	struct rlimit lim = { 0 };
	uint64_t all = 1U << 20;

	if (getrlimit(RLIMIT_NOFILE, &lim) == 0 && lim.rlim_cur < all)
		all = lim.rlim_cur;
	return (all > 2 * reserved ? all - reserved : all / 2) / 2;
}

/*
 * A sandbox may have a quarter of all flows. Once half of all flows are in use, a sandbox
 * may only have an equal share of the other half, so that every sandbox can always open
 * some.
 */
static size_t egress_flows_max(const struct egress_sandbox *sb)
{
	const struct egress *e = sb->egress;
	uint64_t all = egress_flows_all(e), most = EGRESS_FLOWS_MAX;
	uint64_t share = all / 2 / (e->n_busy + (sb->n_flows == 0));

	if (e->n_flows >= all / 2 && share < most)
		most = share;
	if (all / 4 < most)
		most = all / 4;
	if (sb->account.limits.connections && sb->account.limits.connections < most)
		most = sb->account.limits.connections;
	return (size_t)most;
}

void egress_put_reason(const struct request *q, const struct decision *d, struct buf *out)
{
	struct request known = *q;
	struct decision public = *d;

	if (d->by_address) {
		known.has_address = false;
		public.by_address = false;
		public.why = DECISION_NO_RULE;
		public.rule = NULL;
	}
	decision_text(&known, &public, out);
}

static void egress_accepted(struct egress_sandbox *sb, int fd)
{
	struct end refused = { .fd = fd };

	sb->account.usage.connections++;
	egress_usage_changed(sb);
	sockmem_set_listener(sb);
	if (sb->n_flows < egress_flows_max(sb) && !account_is_exhausted(&sb->account)) {
		egress_flow_accept(sb, fd);
		return;
	}
	sb->account.usage.denied++;
	end_reset(&refused);
}

static void egress_on_tcp(void *ctx, unsigned events UNUSED)
{
	struct egress_sandbox *sb = ctx;

	for (int i = 0; i < EGRESS_ACCEPT_TURN; i++) {
		int fd = accept4(sb->tcp, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			egress_accepted(sb, fd);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
		    errno == ENOBUFS) {
			(void)loop_watch_set(sb->tcp_watch, 0);
			loop_timer_set(sb->timer, EGRESS_ACCEPT_PAUSE);
		}
		if (errno != ECONNABORTED && errno != EINTR)
			return;
	}
}

static bool egress_option_is(int fd, int option, int want)
{
	int value = -1;
	socklen_t size = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 && value == want;
}

/* Check that the descriptors are what the caller says, because they may come from an
 * untrusted process. */
static int egress_check_listeners(int tcp, int udp, struct warren_error *err)
{
	const int on = 1;
	bool v6 = egress_option_is(udp, SO_DOMAIN, AF_INET6);

	if ((!egress_option_is(tcp, SO_DOMAIN, AF_INET6) &&
	     !egress_option_is(tcp, SO_DOMAIN, AF_INET)) ||
	    !egress_option_is(tcp, SO_TYPE, SOCK_STREAM) ||
	    !egress_option_is(tcp, SO_PROTOCOL, IPPROTO_TCP) ||
	    !egress_option_is(tcp, SO_ACCEPTCONN, 1))
		return error_set(err, EINVAL, "not a listening TCP socket");
	if ((!v6 && !egress_option_is(udp, SO_DOMAIN, AF_INET)) ||
	    !egress_option_is(udp, SO_TYPE, SOCK_DGRAM) ||
	    !egress_option_is(udp, SO_PROTOCOL, IPPROTO_UDP))
		return error_set(err, EINVAL, "not a UDP socket");
	if (setsockopt(udp, IPPROTO_IP, IP_RECVORIGDSTADDR, &on, sizeof(on)) < 0 ||
	    (v6 &&
	     setsockopt(udp, IPPROTO_IPV6, IPV6_RECVORIGDSTADDR, &on, sizeof(on)) < 0))
		return error_errno(err, errno, "set up the UDP socket");
	return 0;
}

/* ----------------------------------------------------------------------- policies */

static int egress_parse_policy(const char *text, size_t n, struct policy *ret,
			       struct warren_error *err)
{
	json_error_t why;
	json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
	int r;

	if (!root)
		return error_set(err, EINVAL, "the policy is not JSON: %s", why.text);
	r = policy_read_secrets(root, "", ret, err);
	json_decref(root);
	return r;
}

/* Headers can be added to requests inside TLS only if TLS can be terminated. */
static int egress_check_headers(const struct egress *e, const struct policy *p,
				struct warren_error *err)
{
	for (size_t i = 0; !e->terminate && i < p->allow.n; i++)
		if (p->allow.list[i].n_headers > 0 &&
		    (p->allow.list[i].protocols & RULE_HTTPS))
			return error_set(err, ENOTSUP,
					 "/allow/%zu/headers: there is no certificate "
					 "authority to terminate TLS with, because it "
					 "could not be created: free space on the disk "
					 "of the service, and try again",
					 i);
	return 0;
}

/* Erase the policy, because it may contain the values of secrets. */
static void egress_forget_policy(struct egress_sandbox *sb)
{
	if (sb->policy_text)
		explicit_bzero(sb->policy_text, sb->policy_len);
	free(sb->policy_text);
	sb->policy_text = NULL;
}

static bool egress_denies_names(const struct policy *p)
{
	for (size_t i = 0; i < p->deny.n; i++)
		if (p->deny.list[i].host.kind == HOST_NAME ||
		    p->deny.list[i].host.kind == HOST_SUFFIX)
			return true;
	return false;
}

/* A policy can only lower the rate. */
static void egress_set_lookup_rate(struct egress_sandbox *sb)
{
	uint64_t rate = sb->egress->options.lookups_per_second;
	uint64_t own = sb->policy.limits.lookups_per_second;

	if (!rate)
		rate = LOOKUP_RATE;
	lookup_client_set_rate(sb->lookups, own && own < rate ? own : rate);
}

static void egress_on_lookup(void *ctx, enum lookup_event event)
{
	struct egress_sandbox *sb = ctx;

	if (event == LOOKUP_QUERIED)
		sb->account.usage.lookups++;
	else
		sb->account.usage.lookups_limited++;
	egress_usage_changed(sb);
}

/* Use the policy @text. On failure, the sandbox keeps its policy. */
static int egress_set_policy(struct egress_sandbox *sb, const char *text, size_t n,
			     struct warren_error *err)
{
	AUTO_POLICY struct policy p = { 0 };
	AUTO_POLICY_INDEX struct policy_index *index = NULL;
	AUTO_FREE char *copy = NULL;
	struct policy *kept = &sb->policy;
	struct policy old = *kept;
	int r = egress_parse_policy(text, n, &p, err);

	if (r == 0)
		r = egress_check_headers(sb->egress, &p, err);
	if (r < 0)
		return r;
	copy = malloc(n + 1);
	if (!copy)
		return error_errno(err, ENOMEM, "keep the policy");
	(void)memcpy(copy, text, n);
	/* The index refers to the policy, so put the policy in its final place first. */
	*kept = p;
	r = policy_index_new(kept, &index, err);
	if (r < 0) {
		*kept = old;
		return r;
	}
	p = old; /* freed below */
	(void)policy_index_free(sb->index);
	sb->index = TAKE_PTR(index);
	sb->denies_names = egress_denies_names(kept);
	egress_forget_policy(sb);
	sb->policy_text = TAKE_PTR(copy);
	sb->policy_len = n;
	account_set_limits(&sb->account, &kept->limits, loop_now(sb->egress->loop));
	egress_set_lookup_rate(sb);
	return 0;
}

/* ---------------------------------------------------------------------- sandboxes */

static struct egress_sandbox **egress_bucket(struct egress *e, const char *id)
{
	uint32_t h = 2166136261U; /* FNV-1a */

	for (; *id; id++)
		h = (h ^ (unsigned char)*id) * 16777619U;
	return &e->buckets[h % EGRESS_BUCKETS];
}

static struct egress_sandbox *egress_find(struct egress *e, const char *id,
					  struct warren_error *err)
{
	struct egress_sandbox *sb = *egress_bucket(e, id);

	while (sb && strcmp(sb->id, id) != 0)
		sb = sb->next;
	if (!sb)
		(void)error_set(err, ENOENT, "there is no sandbox '%s'", id);
	return sb;
}

static void egress_sandbox_free(struct egress_sandbox *sb)
{
	while (sb->flows)
		egress_flow_reset(sb->flows);
	dns_server_stop(sb);
	sb->lookups = lookup_client_free(sb->lookups);
	loop_task_cancel(&sb->cut);
	sb->tcp_watch = loop_watch_free(sb->tcp_watch);
	sb->udp_watch = loop_watch_free(sb->udp_watch);
	sb->timer = loop_timer_free(sb->timer);
	(void)close(sb->tcp);
	(void)close(sb->udp);
	if (sb->prev)
		DLIST_REMOVE(sb);
	if (sb->changed_prev)
		DLIST_REMOVE_BY(sb, changed_next, changed_prev);
	sb->names = names_free(sb->names);
	record_done(&sb->record);
	(void)policy_index_free(sb->index);
	policy_done(&sb->policy);
	egress_forget_policy(sb);
	sb->egress->n_sandboxes--;
	free(sb);
}

static int egress_sandbox_open(struct egress_sandbox *sb, const char *policy, size_t n,
			       struct warren_error *err)
{
	struct net_loop *loop = sb->egress->loop;
	int r = egress_check_listeners(sb->tcp, sb->udp, err);

	if (r == 0 && lookup_client_new(sb->egress->lookups, egress_on_lookup, sb,
					&sb->lookups) < 0)
		r = error_errno(err, ENOMEM, "serve the sandbox '%s'", sb->id);
	if (r == 0)
		r = egress_set_policy(sb, policy, n, err);
	if (r < 0)
		return r;
	sockmem_set_listener(sb);
	r = names_new(&sb->names);
	if (r == 0)
		r = loop_timer_new(loop, egress_on_timer, sb, &sb->timer);
	if (r == 0)
		r = loop_watch(loop, sb->tcp, LOOP_READ, egress_on_tcp, sb,
			       &sb->tcp_watch);
	if (r == 0)
		r = loop_watch(loop, sb->udp, LOOP_READ, dns_server_on_udp, sb,
			       &sb->udp_watch);
	return r < 0 ? error_errno(err, -r, "serve the sandbox '%s'", sb->id) : 0;
}

int egress_add(struct egress *e, const char *id, const char *policy, size_t n, int tcp,
	       int udp, const struct egress_usage *usage, struct warren_error *err)
{
	AUTO_CLOSE int tcp_fd = tcp, udp_fd = udp;
	struct warren_error none = WARREN_ERROR_INIT;
	struct egress_sandbox *sb;
	int r;

	if (egress_find(e, id, &none))
		return error_set(err, EEXIST, "there is already a sandbox '%s'", id);
	sb = calloc(1, sizeof(*sb));
	if (!sb)
		return error_errno(err, ENOMEM, "serve the sandbox '%s'", id);
	sb->egress = e;
	e->n_sandboxes++;
	(void)strncpy(sb->id, id, sizeof(sb->id) - 1);
	sb->tcp = TAKE_FD(tcp_fd);
	sb->udp = TAKE_FD(udp_fd);
	account_restore(&sb->account, usage);
	sb->cut.fn = egress_cut;
	sb->cut.ctx = sb;
	sb->waiting_tail = &sb->waiting;
	r = egress_sandbox_open(sb, policy, n, err);
	if (r < 0) {
		egress_sandbox_free(sb);
		return r;
	}
	DLIST_PUSH(*egress_bucket(e, id), sb);
	return 0;
}

int egress_change(struct egress *e, const char *id, const char *policy, size_t n,
		  struct warren_error *err)
{
	struct egress_sandbox *sb = egress_find(e, id, err);
	int r;

	if (!sb)
		return -ENOENT;
	if (sb->policy_len == n && memcmp(sb->policy_text, policy, n) == 0)
		return 0;
	r = egress_set_policy(sb, policy, n, err);
	if (r < 0)
		return r;
	for (struct egress_flow *f = sb->flows, *next; f; f = next) {
		next = f->next;
		egress_flow_judge_again(f);
	}
	if (account_is_exhausted(&sb->account))
		egress_cut(sb);
	return 0;
}

int egress_remove(struct egress *e, const char *id, struct warren_error *err)
{
	struct egress_sandbox *sb = egress_find(e, id, err);

	if (!sb)
		return -ENOENT;
	egress_sandbox_free(sb);
	return 0;
}

/* ---------------------------------------------------------------------------- JSON */

static void egress_write_flow(const struct egress_flow *f, uint64_t now, struct json *j)
{
	char text[HOST_TEXT_SIZE];
	unsigned i = 0;

	json_open(j, NULL, '{');
	if (f->q.host.kind != HOST_NAME || f->name) {
		host_text(&f->q.host, text);
		json_str(j, "host", text);
		json_u64(j, "port", f->q.port);
	}
	while (f->q.protocol && !(f->q.protocol >> i & 1))
		i++;
	if (f->q.protocol)
		json_str(j, "protocol", rule_protocol_name(i));
	if (f->q.has_address) {
		host_text(&f->q.address, text);
		json_str(j, "address", text);
	}
	json_u64(j, "bytes_in", f->bytes_in);
	json_u64(j, "bytes_out", f->bytes_out);
	json_u64(j, "age_ms", now - f->since);
	json_close(j, '}');
}

int egress_get_usage(struct egress *e, const char *id, struct egress_usage *ret,
		     struct warren_error *err)
{
	const struct egress_sandbox *sb = egress_find(e, id, err);

	if (!sb)
		return -ENOENT;
	*ret = sb->account.usage;
	return 0;
}

int egress_write_json(struct egress *e, const char *id, struct buf *out,
		      struct warren_error *err)
{
	const struct egress_sandbox *sb = egress_find(e, id, err);
	struct json j = { .out = out };
	size_t n = 0;

	if (!sb)
		return -ENOENT;
	json_open(&j, NULL, '{');
	json_u64(&j, "connections", sb->account.usage.connections);
	json_u64(&j, "denied", sb->account.usage.denied);
	json_u64(&j, "bytes_in", sb->account.usage.bytes_in);
	json_u64(&j, "bytes_out", sb->account.usage.bytes_out);
	json_u64(&j, "live_count", sb->n_flows);
	json_open(&j, "live", '[');
	for (const struct egress_flow *f = sb->flows; f && n < EGRESS_LIVE_MAX;
	     f = f->next, n++)
		egress_write_flow(f, loop_now(e->loop), &j);
	json_close(&j, ']');
	record_write(&sb->record, &j);
	json_close(&j, '}');
	return out->failed ? error_set(err, ENOMEM, "describe the sandbox '%s'", id) : 0;
}

/* ------------------------------------------------------------- lifetime of the module */

static struct resolver_query *egress_resolve(void *ctx, const char *name,
					     resolver_done_fn *done, void *done_ctx)
{
	const struct egress *e = ctx;

	return resolver_lookup(e->resolver, name, done, done_ctx);
}

static int egress_open_lookups(struct egress *e)
{
	const struct lookup_resolver resolver = { egress_resolve, resolver_cancel, e };

	return lookups_new(e->loop, &resolver, &e->lookups);
}

int egress_new(struct net_loop *loop, const struct egress_options *options,
	       struct egress **ret, struct warren_error *err)
{
	struct egress *e = calloc(1, sizeof(*e));
	int r;

	if (!e)
		return error_errno(err, ENOMEM, "open the network");
	e->loop = loop;
	e->options = *options;
	e->terminate = options->terminate;
	e->grants = sockmem_grants(options->tcp_memory);
	e->pipes = pipes_new();
	r = e->pipes ? resolver_new(loop, options->dns_servers, &e->resolver, err)
		     : error_errno(err, ENOMEM, "open the network");
	if (r == 0 && egress_open_lookups(e) < 0)
		r = error_errno(err, ENOMEM, "open the network");
	if (r < 0) {
		(void)egress_free(e);
		return r;
	}
	*ret = e;
	return 0;
}

struct egress *egress_free(struct egress *e)
{
	if (!e)
		return NULL;
	for (size_t i = 0; i < EGRESS_BUCKETS; i++)
		while (e->buckets[i])
			egress_sandbox_free(e->buckets[i]);
	e->lookups = lookups_free(e->lookups);
	e->resolver = resolver_free(e->resolver);
	e->pipes = pipes_free(e->pipes);
	free(e);
	return NULL;
}
