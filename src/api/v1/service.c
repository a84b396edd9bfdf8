/* SPDX-License-Identifier: Apache-2.0 */
/* service.c - handlers: the service's health, metrics, backends and description */
#include <errno.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "api/v1/docs.h"
#include "api/v1/v1.h"
#include "base/json.h"
#include "config/config.h"
#include "net/loop.h"
#include "service/network/network.h"

void v1_get_version(struct call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(256);
	struct json j = { .out = &out };

	json_open(&j, NULL, '{');
	json_str(&j, "version", warren_version());
	json_str(&j, "api", "v1");
	json_close(&j, '}');
	call_json(c, 200, &out);
}

static void v1_service_on_health(void *ctx, int r,
				 const struct warren_error *failure UNUSED)
{
	AUTO_BUF struct buf out = BUF_INIT(4096);
	uint64_t counts[SANDBOX_STATE_MAX];
	struct warren_error err = WARREN_ERROR_INIT;
	struct call *c = ctx;
	bool warden = r == 0;
	bool store = db_count_sandboxes(service_db(c->v1->service), counts, &err) == 0;
	bool disk = service_disk_ok(c->v1->service);
	bool all = store && warden && disk;

	buf_printf(&out,
		   "{\"status\":\"%s\",\"checks\":[{\"name\":\"store\",\"ok\":%s},"
		   "{\"name\":\"warden\",\"ok\":%s},{\"name\":\"disk\",\"ok\":%s}]}",
		   all ? "ok" : "degraded", store ? "true" : "false",
		   warden ? "true" : "false", disk ? "true" : "false");
	if (c->req)
		call_json(c, all ? 200 : 503, &out);
	call_unref(c);
}

void v1_get_health(struct call *c)
{
	service_check_warden(c->v1->service, v1_service_on_health, call_ref(c));
}

void v1_get_docs(struct call *c)
{
	if (c->answered)
		return;
	const struct http_header headers[] = {
		{ "X-Request-Id", http_request_id(c->req) },
		{ "Content-Type", "text/html; charset=utf-8" },
		{ "Content-Security-Policy", V1_DOCS_CSP },
		{ "X-Content-Type-Options", "nosniff" },
		{ "Referrer-Policy", "no-referrer" },
	};

	c->answered = true;
	(void)http_respond(c->req, 200, headers, ARRAY_SIZE(headers), v1_docs,
			   (size_t)(v1_docs_end - v1_docs));
}

void v1_get_openapi(struct call *c)
{
	call_text(c, "application/json", v1_openapi,
		  (size_t)(v1_openapi_end - v1_openapi));
}

/* ------------------------------------------------------------------- backends */

/*
 * Query all backends at the same time; keep each answer until the last one has arrived.
 */
struct asking {
	struct call *call;
	size_t left;
	struct one_asked {
		struct asking *all;
		json_t *features; /* NULL: unknown, for the reason in `reason` */
		char reason[512], fix[512];
	} one[CONFIG_BACKENDS_MAX];
};

/* Report the first required feature that is missing. */
static void service_judge(struct one_asked *one)
{
	size_t i;
	json_t *f;

	json_array_foreach(one->features, i, f)
	{
		const char *detail = json_string_value(json_object_get(f, "detail"));
		const char *fix = json_string_value(json_object_get(f, "fix"));

		if (json_is_true(json_object_get(f, "ok")) ||
		    !json_is_true(json_object_get(f, "required")))
			continue;
		(void)snprintf(one->reason, sizeof(one->reason), "%s: %s",
			       json_string_value(json_object_get(f, "name")),
			       detail ? detail : "missing");
		(void)snprintf(one->fix, sizeof(one->fix), "%s", fix ? fix : "");
		return;
	}
}

static void put_backend(struct json *j, const struct config_backend *b,
			const struct one_asked *one, bool is_default)
{
	char *features = one->features ? json_dumps(one->features, JSON_COMPACT) : NULL;

	json_open(j, NULL, '{');
	json_str(j, "name", b->name);
	json_str(j, "kind", b->kind);
	json_str(j, "tier", tier_names[b->tier]);
	json_bool(j, "available", !one->reason[0]);
	json_str(j, "reason", one->reason[0] ? one->reason : NULL);
	json_str(j, "fix", one->fix[0] ? one->fix : NULL);
	json_bool(j, "default", is_default);
	json_raw(j, "features", features ? features : "[]",
		 features ? strlen(features) : 2);
	json_close(j, '}');
	free(features);
}

static void answer_backends(struct asking *all)
{
	AUTO_BUF struct buf out = BUF_INIT(1U << 20);
	struct json j = { .out = &out };
	struct call *c = all->call;
	const struct config *cfg = c->v1->config;

	json_open(&j, NULL, '{');
	json_open(&j, "backends", '[');
	for (size_t i = 0; i < cfg->n_backends; i++) {
		put_backend(&j, &cfg->backends[i], &all->one[i],
			    strcmp(cfg->backends[i].name, cfg->backend) == 0);
		json_decref(all->one[i].features);
	}
	json_close(&j, ']');
	json_close(&j, '}');
	if (c->req)
		call_json(c, 200, &out);
	call_unref(c);
	free(all);
}

static void v1_service_on_probed(void *ctx, int r, const char *json,
				 const struct warren_error *err)
{
	struct one_asked *one = ctx;

	if (r == 0)
		one->features = json_loads(json, JSON_REJECT_DUPLICATES, NULL);
	if (!json_is_array(one->features))
		(void)snprintf(one->reason, sizeof(one->reason), "%s",
			       r < 0 ? err->msg : "it does not report its features");
	else
		service_judge(one);
	if (--one->all->left == 0)
		answer_backends(one->all);
}

void v1_list_backends(struct call *c)
{
	const struct config *cfg = c->v1->config;
	struct asking *all = calloc(1, sizeof(*all));

	if (!all) {
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	all->call = call_ref(c);
	all->left = cfg->n_backends;
	for (size_t i = 0; i < cfg->n_backends; i++) {
		all->one[i].all = all;
		service_probe(c->v1->service, cfg->backends[i].name, v1_service_on_probed,
			      &all->one[i]);
	}
}

/* -------------------------------------------------------------------- metrics */

static void put_histogram(struct buf *out, const char *name, const char *help,
			  const struct histogram *h)
{
	uint64_t sum = 0;

	buf_printf(out, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name);
	for (size_t i = 0; i < FIGURE_BUCKETS; i++) {
		sum += h->count[i];
		buf_printf(out, "%s_bucket{le=\"%g\"} %ju\n", name,
			   (double)figure_bounds_usec[i] / 1e6, (uintmax_t)sum);
	}
	sum += h->count[FIGURE_BUCKETS];
	buf_printf(out, "%s_bucket{le=\"+Inf\"} %ju\n%s_sum %.6f\n%s_count %ju\n", name,
		   (uintmax_t)sum, name, (double)h->sum_usec / 1e6, name, (uintmax_t)sum);
}

static void put_counter(struct buf *out, const char *name, const char *help,
			uint64_t value)
{
	buf_printf(out, "# HELP %s %s\n# TYPE %s counter\n%s %ju\n", name, help, name,
		   name, (uintmax_t)value);
}

/* One line for each backend, even if it has no sandboxes. */
static void put_by_backend(struct buf *out, const struct v1 *v1)
{
	const struct config *cfg = v1->config;

	buf_puts(out, "# HELP warren_backend_sandboxes Sandboxes by backend and tier.\n"
		      "# TYPE warren_backend_sandboxes gauge\n");
	for (size_t i = 0; i < cfg->n_backends; i++)
		buf_printf(out,
			   "warren_backend_sandboxes{backend=\"%s\",tier=\"%s\"} %zu\n",
			   cfg->backends[i].name, tier_names[cfg->backends[i].tier],
			   service_count_at(v1->service, cfg->backends[i].name));
}

/* Slow turns of the loop, by their activity. */
static void put_turns(struct buf *out, const struct loop_turns *t)
{
	buf_printf(
		out,
		"# HELP warren_loop_slow_turns_total Turns of the event loop that took "
		"longer than %d ms, by what took longest.\n"
		"# TYPE warren_loop_slow_turns_total counter\n",
		LOOP_SLOW_MS);
	for (size_t i = 0; i < t->n; i++)
		buf_printf(out, "warren_loop_slow_turns_total{in=\"%s\"} %ju\n",
			   t->by[i].name, (uintmax_t)t->by[i].turns);
	buf_printf(out, "warren_loop_slow_turns_total{in=\"\"} %ju\n",
		   (uintmax_t)t->by[LOOP_SLOW_KEPT].turns);
	buf_printf(out,
		   "# HELP warren_loop_longest_turn_seconds The longest turn so far.\n"
		   "# TYPE warren_loop_longest_turn_seconds gauge\n"
		   "warren_loop_longest_turn_seconds %.6f\n"
		   "# HELP warren_loop_longest_turn_cpu_seconds The most processor time "
		   "of a turn that was too long.\n"
		   "# TYPE warren_loop_longest_turn_cpu_seconds gauge\n"
		   "warren_loop_longest_turn_cpu_seconds %.6f\n",
		   (double)t->longest_usec / 1e6, (double)t->longest_cpu_usec / 1e6);
}

/* The number of tenants with lines of their own is limited; tenant="": all others. If
 * @tenant is not NULL, only its lines are written. */
static void put_network(struct buf *out, const struct service *s, const char *tenant)
{
	static const struct {
		const char *name, *help;
		size_t offset;
	} rows[] = {
		{ "connections",
		  "Connections that sandboxes opened, denied ones included.",
		  offsetof(struct egress_usage, connections) },
		{ "denied", "Connections, requests and names that policies denied.",
		  offsetof(struct egress_usage, denied) },
		{ "received_bytes", "Bytes that sandboxes received from the network.",
		  offsetof(struct egress_usage, bytes_in) },
		{ "sent_bytes", "Bytes that sandboxes sent to the network.",
		  offsetof(struct egress_usage, bytes_out) },
		{ "lookups", "Queries of names that were sent to name servers.",
		  offsetof(struct egress_usage, lookups) },
		{ "lookups_limited", "Queries of names that a rate delayed or refused.",
		  offsetof(struct egress_usage, lookups_limited) },
	};
	size_t n;
	const struct network_total *totals = network_totals(s, &n);

	buf_printf(out,
		   "# HELP warren_egress_ends_total How often warren-egress ended "
		   "unexpectedly.\n"
		   "# TYPE warren_egress_ends_total counter\n"
		   "warren_egress_ends_total %ju\n",
		   (uintmax_t)network_egress_ends(s));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		buf_printf(out,
			   "# HELP warren_network_%s_total %s\n"
			   "# TYPE warren_network_%s_total counter\n",
			   rows[i].name, rows[i].help, rows[i].name);
		for (size_t k = 0; k < n; k++) {
			const void *usage = &totals[k].usage;
			uint64_t value;

			if (tenant && strcmp(totals[k].tenant, tenant) != 0)
				continue;
			(void)memcpy(&value, (const char *)usage + rows[i].offset,
				     sizeof(value));
			buf_printf(out, "warren_network_%s_total{tenant=\"%s\"} %ju\n",
				   rows[i].name, totals[k].tenant, (uintmax_t)value);
		}
	}
}

static void put_volumes(struct buf *out, struct service *s)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	uint64_t n = 0, bytes = 0;

	if (db_sum_volumes(service_db(s), NULL, &n, &bytes, &ignored) < 0)
		return;
	buf_printf(out,
		   "# HELP warren_volumes Volumes of all tenants.\n"
		   "# TYPE warren_volumes gauge\n"
		   "warren_volumes %ju\n"
		   "# HELP warren_volume_bytes Sum of the sizes of all volumes.\n"
		   "# TYPE warren_volume_bytes gauge\n"
		   "warren_volume_bytes %ju\n",
		   (uintmax_t)n, (uintmax_t)bytes);
}

void v1_get_metrics(struct call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(1U << 20);
	const struct metrics *f = service_metrics(c->v1->service);
	uint64_t counts[SANDBOX_STATE_MAX];
	struct warren_error err = WARREN_ERROR_INIT;

	if (!c->v1->config->metrics) {
		call_refuse(c, API_ERR_NOT_FOUND,
			    "metrics are off in the service's configuration (metrics)");
		return;
	}
	if (db_count_sandboxes(service_db(c->v1->service), counts, &err) < 0) {
		call_fail(c, &err);
		return;
	}
	buf_puts(&out, "# HELP warren_sandboxes Sandboxes by state.\n"
		       "# TYPE warren_sandboxes gauge\n");
	/* All three have this name. */
	counts[SANDBOX_STOPPED] += counts[SANDBOX_ON_DISK] + counts[SANDBOX_HIBERNATING];
	for (int i = 0; i < SANDBOX_ON_DISK; i++)
		buf_printf(&out, "warren_sandboxes{state=\"%s\"} %ju\n",
			   sandbox_state_name((enum sandbox_state)i),
			   (uintmax_t)counts[i]);
	put_by_backend(&out, c->v1);
	put_histogram(&out, "warren_create_seconds",
		      "Time from a request to a running sandbox.",
		      &f->latency[FIGURE_CREATE]);
	put_histogram(&out, "warren_exec_seconds",
		      "Time from a request to the start of its program.",
		      &f->latency[FIGURE_EXEC]);
	put_histogram(&out, "warren_session_seconds",
		      "Time that a command of a session takes.",
		      &f->latency[FIGURE_SESSION]);
	put_counter(&out, "warren_sandboxes_created_total", "Made.", f->created);
	put_counter(&out, "warren_sandboxes_failed_total",
		    "Sandboxes that could not be created.", f->failed);
	put_counter(&out, "warren_sandboxes_deleted_total",
		    "Sandboxes that were deleted.", f->deleted);
	put_counter(&out, "warren_execs_total", "Execs that were started.", f->execs);
	put_counter(&out, "warren_denied_total", "Requests refused because of a quota.",
		    f->denied);
	put_counter(&out, "warren_e2b_unsupported_total",
		    "Requests of E2B clients that this service does not support.",
		    c->v1->e2b_unsupported);
	put_counter(&out, "warren_restored_total",
		    "Sandboxes found again when the service started.", f->restored);
	put_counter(&out, "warren_store_errors_total",
		    "Failed database writes that the service survived.", f->store_errors);
	buf_printf(&out,
		   "# HELP warren_parts Sandboxes prepared in advance.\n"
		   "# TYPE warren_parts gauge\n"
		   "warren_parts{is=\"ready\"} %ju\n"
		   "warren_parts{is=\"wanted\"} %ju\n",
		   (uintmax_t)f->parts_ready, (uintmax_t)f->parts_wanted);
	put_counter(&out, "warren_parts_taken_total",
		    "Sandboxes created from a prepared one.", f->parts_taken);
	put_counter(&out, "warren_parts_missed_total",
		    "Sandboxes created when no prepared one was ready.", f->parts_missed);
	put_network(&out, c->v1->service,
		    access_may(&c->caller, "admin") ? NULL : c->caller.tenant);
	put_volumes(&out, c->v1->service);
	put_turns(&out, loop_turns(service_loop(c->v1->service)));
	call_text(c, "text/plain; version=0.0.4; charset=utf-8", out.data, out.len);
}
