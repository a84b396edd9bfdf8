/* SPDX-License-Identifier: Apache-2.0 */
/* about.c - handlers: the service itself: its health, figures, backends, description */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/v1/docs.h"
#include "api/v1/v1.h"
#include "base/json.h"
#include "config/config.h"

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

void v1_get_health(struct call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(4096);
	uint64_t counts[SANDBOX_STATE_MAX];
	struct warren_error err = WARREN_ERROR_INIT;
	bool store = db_count_sandboxes(service_db(c->v1->service), counts, &err) == 0;
	bool warden = service_has_warden(c->v1->service);

	buf_printf(&out,
		   "{\"status\":\"%s\",\"checks\":[{\"name\":\"store\",\"ok\":%s},"
		   "{\"name\":\"warden\",\"ok\":%s}]}",
		   store && warden ? "ok" : "degraded", store ? "true" : "false",
		   warden ? "true" : "false");
	call_json(c, store && warden ? 200 : 503, &out);
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

static void on_probed(void *ctx, int r, const char *json, const struct warren_error *err)
{
	AUTO_BUF struct buf out = BUF_INIT(256 << 10);
	struct json j = { .out = &out };
	struct call *c = ctx;

	if (c->req && r < 0) {
		call_fail(c, err);
	} else if (c->req) {
		json_open(&j, NULL, '{');
		json_open(&j, "backends", '[');
		json_open(&j, NULL, '{');
		json_str(&j, "name", c->v1->config->backend);
		json_str(&j, "tier", "namespace");
		json_bool(&j, "available", true);
		json_nil(&j, "reason");
		json_bool(&j, "default", true);
		json_raw(&j, "features", json, strlen(json));
		json_close(&j, '}');
		json_close(&j, ']');
		json_close(&j, '}');
		call_json(c, 200, &out);
	}
	call_unref(c);
}

void v1_list_backends(struct call *c)
{
	service_probe(c->v1->service, on_probed, call_ref(c));
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

void v1_get_metrics(struct call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(1U << 20);
	const struct figures *f = service_figures(c->v1->service);
	uint64_t counts[SANDBOX_STATE_MAX];
	struct warren_error err = WARREN_ERROR_INIT;

	if (!c->v1->config->metrics) {
		call_refuse(c, API_ERR_NOT_FOUND,
			    "figures are off in the service's configuration (metrics)");
		return;
	}
	if (db_count_sandboxes(service_db(c->v1->service), counts, &err) < 0) {
		call_fail(c, &err);
		return;
	}
	buf_puts(&out, "# HELP warren_sandboxes Sandboxes by state.\n"
		       "# TYPE warren_sandboxes gauge\n");
	for (int i = 0; i < SANDBOX_STATE_MAX; i++)
		buf_printf(&out, "warren_sandboxes{state=\"%s\"} %ju\n",
			   sandbox_state_name((enum sandbox_state)i),
			   (uintmax_t)counts[i]);
	put_histogram(&out, "warren_create_seconds",
		      "From a request to a running sandbox.", &f->latency[FIGURE_CREATE]);
	put_histogram(&out, "warren_exec_seconds",
		      "From a request to its program's start.", &f->latency[FIGURE_EXEC]);
	put_histogram(&out, "warren_session_seconds", "A command of a session.",
		      &f->latency[FIGURE_SESSION]);
	put_counter(&out, "warren_sandboxes_created_total", "Made.", f->created);
	put_counter(&out, "warren_sandboxes_failed_total", "Could not be made.",
		    f->failed);
	put_counter(&out, "warren_sandboxes_deleted_total", "Deleted.", f->deleted);
	put_counter(&out, "warren_execs_total", "Started.", f->execs);
	put_counter(&out, "warren_denied_total", "Refused for a quota.", f->denied);
	put_counter(&out, "warren_restored_total", "Found again at the start.",
		    f->restored);
	put_counter(&out, "warren_store_errors_total",
		    "Writes that failed and were survived.", f->store_errors);
	buf_printf(&out,
		   "# HELP warren_parts Parts of sandboxes, made ahead.\n"
		   "# TYPE warren_parts gauge\n"
		   "warren_parts{is=\"ready\"} %ju\nwarren_parts{is=\"wanted\"} %ju\n",
		   (uintmax_t)f->parts_ready, (uintmax_t)f->parts_wanted);
	put_counter(&out, "warren_parts_taken_total", "Sandboxes made of such a part.",
		    f->parts_taken);
	put_counter(&out, "warren_parts_missed_total",
		    "Sandboxes for which none was ready.", f->parts_missed);
	call_text(c, "text/plain; version=0.0.4; charset=utf-8", out.data, out.len);
}
