/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network.c - keep the policies in warren-egress up to date for all sandboxes
 *
 * network_step() compares the policy of a sandbox with what warren-egress serves for it,
 * and sends the next request. Each reply calls network_step() again. So the result is the
 * same if one of the processes was restarted in between.
 */
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/list.h"
#include "network/header.h"
#include "network/policy_json.h"
#include "proto/warden_proto.h"
#include "service/core/sandbox_job.h"
#include "service/core/secret.h"
#include "service/network/internal.h"

#define AGAIN_MS  20   /* interval while old sockets may still be open */
#define TRIES_MAX 250  /* maximum number of these retries */
#define LATER_MS  1000 /* interval after another failure, if no request waits */
#define AWAIT_MS                                                            \
	30000 /* maximum time that a request waits; a process that hangs is \
		 replaced earlier */

static void network_step(struct sandbox *sandbox);

static void network_again(struct sandbox *sandbox)
{
	loop_timer_set(sandbox_network(sandbox)->timer, AGAIN_MS);
}

/* A request in progress; the sandbox may be gone when its reply arrives. */
struct network_op {
	struct service *service;
	char id[ID_LEN + 1];
	unsigned lives; /* sandbox_network.lives */
};

static struct network_op *network_op_new(const struct sandbox *sandbox)
{
	struct network_op *op = malloc(sizeof(*op));

	if (!op)
		return NULL;
	op->service = sandbox->service;
	op->lives = sandbox_network(sandbox)->lives;
	(void)memcpy(op->id, sandbox->row.id, sizeof(op->id));
	return op;
}

/*
 * Return the sandbox that the reply is about. NULL: it is gone, or its init ended after
 * the request, so the reply is about a network namespace that it no longer has.
 */
static struct sandbox *network_op_done(struct network_op *op)
{
	struct sandbox *sandbox = sandbox_find(op->service, NULL, op->id);
	struct sandbox_network *n = sandbox ? sandbox_network(sandbox) : NULL;
	bool late = n && op->lives != n->lives;

	free(op);
	if (n)
		n->busy = false;
	/* A sandbox that was woken waited for the reply. Continue after its callback. */
	if (late)
		network_again(sandbox);
	return late ? NULL : sandbox;
}

/* ---------------------------------------------------------------- results of requests */

static void network_wait_end(struct network_wait *w, int r,
			     const struct warren_error *err)
{
	w->late = loop_timer_free(w->late);
	w->done(w->ctx, r, err);
	free(w);
}

static void network_finish(struct sandbox *sandbox, int r, const struct warren_error *err)
{
	struct sandbox_network *n = sandbox_network(sandbox);
	struct network_wait *all = n->waits;
	bool waited = all;

	n->waits = NULL;
	n->tries = 0;
	if (r < 0 && !waited)
		loop_timer_set(n->timer, LATER_MS);
	if (r < 0 && !waited && sandbox->service->note) {
		AUTO_BUF struct buf text = BUF_INIT(1024);

		buf_printf(&text, "open the network of sandbox '%s': %s, trying again",
			   sandbox->row.id, err->msg);
		if (!text.failed)
			sandbox->service->note(sandbox->service->note_ctx, text.data);
	}
	while (all) {
		struct network_wait *w = all;

		all = w->next;
		network_wait_end(w, r, err);
	}
}

static void network_fail(struct sandbox *sandbox, int r, const char *what)
{
	struct warren_error err = WARREN_ERROR_INIT;

	network_finish(sandbox, error_errno(&err, -r, "%s", what), &err);
}

static void network_on_timer(void *ctx)
{
	network_step(ctx);
}

/* --------------------------------------------------------------- policies */

/* Write the policy with its secrets, which only warren-egress may see. */
static int network_policy_memfd(struct sandbox *sandbox, struct warren_error *err)
{
	AUTO_BUF struct buf out = BUF_INIT(EGRESS_POLICY_MAX);
	AUTO_POLICY struct policy p = { 0 };
	struct secret_source source = { sandbox->service, sandbox->row.owner };
	struct json j = { .out = &out };
	json_t *in = json_loads(sandbox_network(sandbox)->policy, 0, NULL);
	int r = in ? policy_read(in, "/network", &p, err)
		   : error_errno(err, ENOMEM, "read the policy");

	json_decref(in);
	if (r == 0)
		r = policy_resolve_secrets(&p, secret_lookup, &source, err);
	if (r < 0)
		return r;
	policy_write_secrets(&p, &j, NULL);
	r = out.failed ? error_errno(err, ENOMEM, "write the policy")
		       : egress_proto_memfd(out.data, out.len, err);
	if (out.data)
		explicit_bzero(out.data, out.len);
	return r;
}

/* ------------------------------------------------------------------- requests */

static void network_ignore(void *ctx UNUSED, const struct warren_error *err UNUSED,
			   const char *data UNUSED, size_t n UNUSED)
{
}

/* If the connection is full, do nothing: warren-egress also forgets the sandbox when the
 * connection or the sandbox ends. */
static void network_remove_id(struct service *service, const char *id)
{
	struct egress_request msg;

	egress_proto_request(&msg, EGRESS_REMOVE, 0, id);
	(void)egress_conn_ask(service, &msg, sizeof(msg), NULL, 0, network_ignore, NULL);
}

/*
 * warren-egress has refused a policy: NOTSUP means that the policy needs the authority,
 * which it does not have. True: another process will get the policy.
 */
static bool network_renews(struct sandbox *sandbox, const struct warren_error *failure)
{
	return failure && failure->code == ENOTSUP && egress_conn_renew(sandbox->service);
}

static void network_on_added(void *ctx, const struct warren_error *failure,
			     const char *data UNUSED, size_t size UNUSED)
{
	struct network_op op = *(struct network_op *)ctx;
	struct sandbox *sandbox = network_op_done(ctx);

	if (!sandbox) {
		/* The sandbox was deleted before warren-egress knew it. */
		if (!failure)
			network_remove_id(op.service, op.id);
		return;
	}
	if (network_renews(sandbox, failure))
		return;
	if (!failure) {
		sandbox_network(sandbox)->attached = true;
	} else if (failure->code == EEXIST &&
		   sandbox_network(sandbox)->tries++ < TRIES_MAX) {
		/*
		 * It still has the sockets of a namespace that the sandbox no longer has,
		 * because the connection was full when it was to forget them.
		 */
		network_remove_id(op.service, op.id);
		network_again(sandbox);
		return;
	} else if (failure->code != ECONNRESET) {
		network_finish(sandbox, -failure->code, failure);
		return;
	}
	network_step(sandbox);
}

static void network_on_changed(void *ctx, const struct warren_error *failure,
			       const char *data UNUSED, size_t size UNUSED)
{
	struct sandbox *sandbox = network_op_done(ctx);

	if (!sandbox || network_renews(sandbox, failure))
		return;
	if (failure && failure->code != ECONNRESET)
		network_finish(sandbox, -failure->code, failure);
	else
		network_step(sandbox);
}

/* Send a request with the policy, and with the sockets if it is an ADD. */
static void network_send(struct sandbox *sandbox, int *sockets)
{
	struct sandbox_network *n = sandbox_network(sandbox);
	struct network_op *op = network_op_new(sandbox);
	struct warren_error err = WARREN_ERROR_INIT;
	struct egress_add add;
	struct egress_request change;
	int fds[EGRESS_FDS_MAX] = { -1 };
	int r = op ? 0 : error_errno(&err, ENOMEM, "open the network");

	if (r == 0)
		r = fds[0] = network_policy_memfd(sandbox, &err);
	if (r >= 0 && sockets) {
		egress_proto_add(&add, 0, sandbox->row.id, &n->usage);
		fds[EGRESS_ADD_TCP] = sockets[0];
		fds[EGRESS_ADD_UDP] = sockets[1];
		r = egress_conn_ask(sandbox->service, &add, sizeof(add), fds, 3,
				    network_on_added, op);
	} else if (r >= 0) {
		egress_proto_request(&change, EGRESS_CHANGE, 0, sandbox->row.id);
		r = egress_conn_ask(sandbox->service, &change, sizeof(change), fds, 1,
				    network_on_changed, op);
	}
	if (fds[0] >= 0)
		(void)close(fds[0]);
	n->changed = n->changed && r < 0;
	n->busy = r == 0;
	if (r == 0)
		return;
	free(op);
	if (r == -EAGAIN)
		network_again(sandbox);
	else if (r != -ENOTCONN)
		network_finish(sandbox, r, &err);
}

/*
 * The kernel has not yet closed the sockets of the previous process, so their ports are
 * still in use.
 */
static void network_fail_ports(struct sandbox *sandbox)
{
	struct warren_error err = WARREN_ERROR_INIT;

	network_finish(
		sandbox,
		error_set(&err, EADDRINUSE,
			  "a process in the sandbox uses TCP port 1 or UDP port 53, "
			  "which a network policy needs"),
		&err);
}

static void network_on_captured(void *ctx, const struct warren_error *failure,
				const char *data UNUSED, size_t size UNUSED, int fd)
{
	struct sandbox *sandbox = network_op_done(ctx);
	int sockets[WARREN_CAPTURE_FDS];
	int r = fd < 0 ? -EIO : fd_unbundle(fd, sockets, ARRAY_SIZE(sockets));

	if (sandbox && failure && failure->code == EADDRINUSE &&
	    sandbox_network(sandbox)->tries++ < TRIES_MAX)
		network_again(sandbox);
	else if (sandbox && failure && failure->code == EADDRINUSE)
		network_fail_ports(sandbox);
	else if (sandbox && failure)
		network_finish(sandbox, -failure->code, failure);
	else if (sandbox && r < 0)
		network_fail(sandbox, r, "open the network");
	else if (sandbox)
		network_send(sandbox, sockets);
	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(sockets); i++)
		(void)close(sockets[i]);
}

static void network_capture(struct sandbox *sandbox)
{
	struct warden_proto_sandbox msg = { .h = { .type = WIRE_CAPTURE } };
	struct network_op *op;
	int r = -ENOMEM;

	if (sandbox->captured[0] >= 0) {
		network_send(sandbox, sandbox->captured);
		sandbox_close_captured(sandbox);
		return;
	}
	op = network_op_new(sandbox);
	if (op)
		r = warden_conn_ask_of(sandbox, &msg, sizeof(msg), network_on_captured,
				       op);
	sandbox_network(sandbox)->busy = r == 0;
	if (r == 0)
		return;
	free(op);
	network_fail(sandbox, r, "send a request to the warden");
}

/* -------------------------------------------------------------------------- trust */

/*
 * Does the sandbox have the file, although its backend cannot add it? It was created with
 * a policy that needs it, and hence with these variables, unless the request set them.
 */
static bool network_has_trust_file(const struct sandbox *sandbox)
{
	for (size_t i = 0; network_trust_env[i]; i++)
		for (const char *const *env = sandbox->is.base.env; env && *env; env++)
			if (strcmp(*env, network_trust_env[i]) == 0)
				return true;
	return false;
}

/* Return whether the policy applies nevertheless; otherwise, *@err is for the client. */
static bool network_survives_distrust(const struct sandbox *sandbox,
				      struct warren_error *err)
{
	bool changes = sandbox_is_made(sandbox) && sandbox_network(sandbox)->waits;

	/* Nothing keeps a sandbox from waking: its programs do not trust the authority.
	 */
	if (sandbox_state_sleeps(sandbox->row.state))
		return true;
	/* A backend without this feature mounts the file when it creates a sandbox. */
	if (err->code == EOPNOTSUPP && changes && !network_has_trust_file(sandbox)) {
		(void)error_set(
			err, EOPNOTSUPP,
			"backend '%s' cannot add certificates to a running sandbox, "
			"which rules with headers, methods or paths need: create a "
			"sandbox with such a rule",
			sandbox->row.backend);
		return false;
	}
	if (err->code == EOPNOTSUPP)
		return true;
	if (err->code != WIRE_FILES_INSIDE)
		return false;
	/* Files in a running sandbox must not prevent a stricter policy. */
	if (sandbox->row.state != SANDBOX_CREATING)
		return true;
	err->code = EINVAL;
	return false;
}

static void network_on_trusted(void *ctx, const struct warren_error *failure,
			       const char *data UNUSED, size_t size UNUSED, int fd)
{
	struct sandbox *sandbox = network_op_done(ctx);
	struct warren_error err =
		failure ? *failure : (struct warren_error)WARREN_ERROR_INIT;
	struct sandbox_network *n = sandbox ? sandbox_network(sandbox) : NULL;

	if (fd >= 0)
		(void)close(fd);
	if (!n)
		return;
	if (failure && !network_survives_distrust(sandbox, &err)) {
		network_finish(sandbox, -err.code, &err);
		return;
	}
	free(n->distrust);
	n->distrust =
		failure && failure->code != EOPNOTSUPP ? strdup(failure->msg) : NULL;
	if (!failure)
		sandbox->added_env = network_trust_env;
	n->trusted = true;
	network_step(sandbox);
}

/* Before the policy applies, the sandbox must trust the authority. */
static void network_trust(struct sandbox *sandbox)
{
	struct warden_proto_sandbox msg = { .h = { .type = WIRE_TRUST } };
	struct network_op *op = network_op_new(sandbox);
	int r = -ENOMEM;

	if (op)
		r = warden_conn_ask_of(sandbox, &msg, sizeof(msg), network_on_trusted,
				       op);
	sandbox_network(sandbox)->busy = r == 0;
	if (r == 0)
		return;
	free(op);
	network_fail(sandbox, r, "send a request to the warden");
}

static void network_step(struct sandbox *sandbox)
{
	struct sandbox_network *n = sandbox_network(sandbox);
	struct service *s = sandbox->service;
	struct warren_error ended = WARREN_ERROR_INIT;

	if (n->lost && !n->busy) {
		/* It has no network namespace, or will soon have none. */
		if (n->waits)
			network_finish(sandbox,
				       error_set(&ended, ESTALE,
						 "the sandbox ended in the meantime"),
				       &ended);
		return;
	}
	/* A sandbox that hibernates has no network until it is being woken. */
	if (n->busy || (sandbox_state_sleeps(sandbox->row.state) && !n->waits))
		return;
	if (!n->policy) {
		if (n->attached)
			network_remove(sandbox);
		network_finish(sandbox, 0, NULL);
	} else if (!egress_conn_is_up(s)) {
		const struct warren_error *why = &service_network(s)->conn.failure;

		/* Otherwise connections would wait in a queue that no process serves. */
		sandbox_close_captured(sandbox);
		if (why->code && n->waits)
			network_finish(sandbox, -why->code, why);
		egress_conn_start(s);
	} else if (n->terminates && !n->trusted) {
		network_trust(sandbox);
	} else if (!n->attached) {
		network_capture(sandbox);
	} else if (n->changed) {
		network_send(sandbox, NULL);
	} else {
		network_finish(sandbox, 0, NULL);
	}
}

void network_all_step(struct service *s, bool started)
{
	for (size_t i = 0; i < SANDBOX_BUCKETS; i++)
		for (struct sandbox *sandbox = s->sandboxes[i], *next; sandbox;
		     sandbox = next) {
			struct sandbox_network *n = sandbox_network(sandbox);

			next = sandbox->hash_next;
			if (!n || !n->policy)
				continue;
			n->attached = false;
			if (started || sandbox_is_made(sandbox) || n->waits)
				network_step(sandbox);
		}
}

static void network_on_late(void *ctx)
{
	struct network_wait *w = ctx;
	struct warren_error err = WARREN_ERROR_INIT;

	(void)LIST_REMOVE(sandbox_network(w->sandbox)->waits, w);
	network_wait_end(w,
			 error_set(&err, ETIMEDOUT,
				   "warren-egress does not answer; the network is closed "
				   "until it works again"),
			 &err);
}

static void network_await(struct sandbox *sandbox, service_done_fn done, void *ctx)
{
	struct network_wait *w = malloc(sizeof(*w));
	struct warren_error err = WARREN_ERROR_INIT;

	if (w)
		*w = (struct network_wait){ .sandbox = sandbox,
					    .done = done,
					    .ctx = ctx };
	if (!w ||
	    loop_timer_new(sandbox->service->loop, network_on_late, w, &w->late) < 0) {
		free(w);
		done(ctx, error_errno(&err, ENOMEM, "open the network"), &err);
		return;
	}
	loop_timer_set(w->late, AWAIT_MS);
	LIST_PUSH(sandbox_network(sandbox)->waits, w);
	network_step(sandbox);
}

/* ------------------------------------------------------------------- interface */

const char *network_policy(const struct sandbox *sandbox)
{
	return sandbox_network(sandbox)->policy;
}

const char *network_distrust(const struct sandbox *sandbox)
{
	return sandbox_network(sandbox)->distrust;
}

const struct egress_usage *network_usage(const struct sandbox *sandbox)
{
	return &sandbox_network(sandbox)->usage;
}

struct network_query_op {
	network_query_fn fn;
	void *ctx;
};

static void network_on_answer(void *ctx, const struct warren_error *failure,
			      const char *data, size_t n)
{
	struct network_query_op op = *(struct network_query_op *)ctx;

	free(ctx);
	op.fn(op.ctx, failure ? -failure->code : 0, data, n, failure);
}

void network_query(struct sandbox *sandbox, network_query_fn fn, void *ctx)
{
	struct network_query_op *op = malloc(sizeof(*op));
	struct warren_error err = WARREN_ERROR_INIT;
	struct egress_request msg;
	int r = op ? -EAGAIN : -ENOMEM;

	egress_proto_request(&msg, EGRESS_QUERY, 0, sandbox->row.id);
	if (op) {
		*op = (struct network_query_op){ fn, ctx };
		if (sandbox_network(sandbox)->attached)
			r = egress_conn_ask(sandbox->service, &msg, sizeof(msg), NULL, 0,
					    network_on_answer, op);
	}
	if (r == 0)
		return;
	free(op);
	(void)error_set(&err, EAGAIN, "warren-egress is being started; try again");
	fn(ctx, -EAGAIN, NULL, 0, &err);
}

static int network_set(struct sandbox *sandbox, const char *policy,
		       struct warren_error *err)
{
	struct sandbox_network *n = sandbox_network(sandbox);
	char *copy = policy ? strdup(policy) : NULL;

	if (policy && !copy)
		return error_errno(err, ENOMEM, "change the network");
	free(n->policy);
	n->policy = copy;
	n->terminates = trust_needed(copy);
	n->trusted = n->trusted && !n->distrust; /* try again what failed */
	n->changed = true;
	return 0;
}

/* A change that failed is undone; job->text is the previous policy. */
static void network_on_applied(void *ctx, int r, const struct warren_error *err)
{
	struct sandbox_job *job = ctx;
	struct sandbox *sandbox = job->sandbox;
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (r == 0)
		event_emit(sandbox->service, EVENT_SANDBOX_UPDATED, sandbox, NULL, NULL);
	else if (r != -ENOENT && spec_set_network(sandbox, job->text, &ignored) == 0 &&
		 network_set(sandbox, job->text, &ignored) == 0)
		network_again(sandbox);
	sandbox_job_end(job, r, err);
}

static void network_begin_change(struct sandbox_job *job)
{
	struct sandbox *sandbox = job->sandbox;
	const char *now = network_policy(sandbox);
	struct warren_error err = WARREN_ERROR_INIT;
	char *before = now ? strdup(now) : NULL;
	int r = now && !before ? error_errno(&err, ENOMEM, "change the network") : 0;

	if (r == 0 && !sandbox_is_made(sandbox))
		r = sandbox_wrong_state(sandbox, &err);
	if (r == 0)
		r = spec_set_network(sandbox, job->text, &err);
	if (r == 0)
		r = network_set(sandbox, job->text, &err);
	free(job->text);
	job->text = before;
	if (r < 0)
		sandbox_job_end(job, r, &err);
	else
		network_await(sandbox, network_on_applied, job);
}

void network_change(struct sandbox *sandbox, const char *policy, service_done_fn done,
		    void *ctx)
{
	struct warren_error err = WARREN_ERROR_INIT;
	char *copy = policy ? strdup(policy) : NULL;

	if (policy && !copy)
		done(ctx, error_errno(&err, ENOMEM, "change the network"), &err);
	else
		sandbox_job_add(sandbox,
				(struct sandbox_job){ .begin = network_begin_change,
						      .text = copy,
						      .kind = JOB_CHANGE,
						      .permit = sandbox->service->permit,
						      .done = done,
						      .ctx = ctx });
}

/* ----------------------------------------------------------------------- hooks */

/* Read the policy of a sandbox from the database. */
static int network_load(struct sandbox *sandbox)
{
	struct sandbox_network *n = sandbox_network(sandbox);
	struct warren_error ignored = WARREN_ERROR_INIT;
	uint64_t used[DB_NETWORK_MAX] = { 0 };

	n->sandbox = sandbox;
	if (!n->timer && loop_timer_new(sandbox->service->loop, network_on_timer, sandbox,
					&n->timer) < 0)
		return -ENOMEM;
	if (n->policy || !sandbox->row.network ||
	    strcmp(sandbox->row.network, NETWORK_POLICY) != 0)
		return 0;
	if (db_get_policy(sandbox->service->db, sandbox->row.id, &n->policy, &ignored) <
	    0)
		return -ENOMEM;
	n->terminates = trust_needed(n->policy);
	/* A sandbox that is being created has used nothing. */
	if (sandbox->row.state != SANDBOX_CREATING &&
	    db_get_network(sandbox->service->db, sandbox->row.id, used, &ignored) == 0)
		n->usage = (struct egress_usage){ .connections = used[0],
						  .denied = used[1],
						  .bytes_in = used[2],
						  .bytes_out = used[3] };
	return 0;
}

static void network_prepare(struct sandbox *sandbox, service_done_fn done, void *ctx)
{
	struct warren_error err = WARREN_ERROR_INIT;

	sandbox_network(sandbox)->lost = false;
	if (network_load(sandbox) < 0)
		done(ctx, error_errno(&err, ENOMEM, "open the network"), &err);
	else if (sandbox_network(sandbox)->policy)
		network_await(sandbox, done, ctx);
	else
		done(ctx, 0, NULL);
}

/* Do not wait: the service becomes ready even if a network takes a long time, or cannot
 * be opened yet. */
static void network_restore(struct sandbox *sandbox)
{
	if (network_load(sandbox) == 0 && sandbox_network(sandbox)->policy)
		network_step(sandbox);
}

/* Its init has ended, or is about to: warren-egress must not keep the namespace. */
static void network_lost(struct sandbox *sandbox)
{
	struct sandbox_network *n = sandbox_network(sandbox);

	if (n->attached)
		network_remove(sandbox);
	n->trusted = false;
	n->lost = true;
	n->lives++;
	if (n->waits)
		network_again(sandbox);
}

/* If the sandbox could not hibernate, it runs again and needs its network. */
static void network_connected(struct sandbox *sandbox, service_done_fn done, void *ctx)
{
	sandbox_network(sandbox)->lost = false;
	if (sandbox_network(sandbox)->policy)
		network_step(sandbox);
	done(ctx, 0, NULL);
}

static void network_gone(struct sandbox *sandbox)
{
	struct sandbox_network *n = sandbox_network(sandbox);
	struct warren_error err = WARREN_ERROR_INIT;

	if (n->attached)
		network_remove(sandbox);
	(void)error_set(&err, ENOENT, "the sandbox was deleted");
	n->busy = false;
	while (n->waits) {
		struct network_wait *w = n->waits;

		n->waits = w->next;
		network_wait_end(w, -ENOENT, &err);
	}
	n->timer = loop_timer_free(n->timer);
	free(n->policy);
	n->policy = NULL;
	free(n->distrust);
	n->distrust = NULL;
}

/* Return whether the policy uses the secret. `$${` stands for the characters themselves.
 */
static bool network_uses_secret(const char *policy, const char *name)
{
	char use[SECRET_NAME_MAX + 16];

	(void)snprintf(use, sizeof(use), "${secret.%s}", name);
	for (const char *at = strstr(policy, use); at; at = strstr(at + 1, use))
		if (at == policy || at[-1] != '$')
			return true;
	return false;
}

const char *network_find_secret(struct service *s, const char *tenant, const char *name)
{
	for (size_t i = 0; i < SANDBOX_BUCKETS; i++)
		for (const struct sandbox *sandbox = s->sandboxes[i]; sandbox;
		     sandbox = sandbox->hash_next) {
			const char *policy = network_policy(sandbox);

			if (policy && strcmp(sandbox->row.owner, tenant) == 0 &&
			    network_uses_secret(policy, name))
				return sandbox->row.id;
		}
	return NULL;
}

static void network_on_secret(void *ctx, const char *tenant, const char *name UNUSED)
{
	struct service *s = ctx;

	for (size_t i = 0; i < SANDBOX_BUCKETS; i++)
		for (struct sandbox *sandbox = s->sandboxes[i]; sandbox;
		     sandbox = sandbox->hash_next) {
			struct sandbox_network *n = sandbox_network(sandbox);

			if (!n || !n->policy || strcmp(sandbox->row.owner, tenant) != 0 ||
			    !strstr(n->policy, "${secret."))
				continue;
			n->changed = true;
			network_step(sandbox);
		}
}

static int network_open(struct service *s, const struct service_options *options UNUSED,
			struct warren_error *err)
{
	secret_on_change(s, network_on_secret, s);
	return egress_conn_open(s, err);
}

const struct service_module network_hooks = {
	.number = MODULE_NETWORK,
	.service_size = sizeof(struct service_network),
	.sandbox_size = sizeof(struct sandbox_network),
	.open = network_open,
	.close = egress_conn_close,
	.prepare = network_prepare,
	.restore = network_restore,
	.connected = network_connected,
	.lost = network_lost,
	.gone = network_gone,
};
