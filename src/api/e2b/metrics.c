/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics.c - what a sandbox uses now
 *
 * The use of the processor is the average since the last time that a client asked, or
 * since the sandbox was created.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "api/e2b/internal.h"
#include "base/date.h"
#include "base/parse.h"

#define SAMPLES 256 /* sandboxes whose last sample is remembered; a power of two */

struct sample {
	char sandbox[ID_LEN + 1];
	int64_t at; /* ms */
	uint64_t cpu_usec;
};

static struct sample *sample_of(const char *id)
{
	static struct sample all[SAMPLES]; /* there is one thread */
	unsigned hash = 0;

	for (const char *p = id; *p; p++)
		hash = hash * 31 + (unsigned char)*p;
	return &all[hash % SAMPLES];
}

/* What a client sees of the sandbox. */
struct figures {
	int64_t at;
	uint64_t cpus, memory, memory_max, disk, disk_max;
	double cpu_percent;
};

uint64_t e2b_cpu_count(const struct sandbox_row *row)
{
	return row->cpu_millis ? (row->cpu_millis + 999) / 1000
			       : (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
}

uint64_t e2b_memory_size(const struct sandbox_row *row)
{
	struct sysinfo machine = { 0 };

	if (row->memory || sysinfo(&machine) < 0)
		return row->memory;
	return (uint64_t)machine.totalram * machine.mem_unit;
}

static void figures_read(const struct sandbox *sandbox, const struct warren_stats *stats,
			 struct figures *ret)
{
	const struct sandbox_row *row = sandbox_row(sandbox);
	struct sample *last = sample_of(row->id);
	bool known =
		strcmp(last->sandbox, row->id) == 0 && last->cpu_usec <= stats->cpu_usec;
	int64_t now = service_time(), since = known ? last->at : row->created_at;
	uint64_t used = stats->cpu_usec - (known ? last->cpu_usec : 0);

	*ret = (struct figures){
		.at = service_wall(now),
		.cpus = e2b_cpu_count(row),
		.memory = stats->memory,
		.memory_max = e2b_memory_size(row),
		.disk = stats->disk,
		.disk_max = row->disk,
		.cpu_percent =
			now > since ? (double)used / (double)(now - since) / 10 : 0,
	};
	(void)memcpy(last->sandbox, row->id, sizeof(last->sandbox));
	last->at = now;
	last->cpu_usec = stats->cpu_usec;
}

/* ------------------------------------------------------------------ the control plane */

/* A parameter in seconds; without it, *@ret stays. False: it is not valid. */
static bool metrics_time(const struct call *c, const char *name, uint64_t *ret)
{
	struct warren_error why = WARREN_ERROR_INIT;
	char text[E2B_NUMBER_MAX + 1];

	return !e2b_query(c, name, text, sizeof(text)) || !text[0] ||
	       parse_u64(text, INT64_MAX / 1000, ret, &why) == 0;
}

/* The parameters `start` and `end`. False: the call was refused. */
static bool metrics_times(struct call *c, uint64_t *ret_start, uint64_t *ret_end)
{
	*ret_start = 0;
	*ret_end = INT64_MAX / 1000;
	if (!metrics_time(c, "start", ret_start))
		e2b_refuse(c, 400, "start: must be a time in seconds since 1970");
	else if (!metrics_time(c, "end", ret_end))
		e2b_refuse(c, 400, "end: must be a time in seconds since 1970");
	else
		return true;
	return false;
}

static void metrics_show(struct json *j, const char *key, const struct figures *f)
{
	char text[DATE_SIZE];

	json_open(j, key, '{');
	date_iso(text, f->at);
	json_str(j, "timestamp", text);
	json_int(j, "timestampUnix", f->at / 1000);
	json_u64(j, "cpuCount", f->cpus);
	json_milli(j, "cpuUsedPct", (uint64_t)(f->cpu_percent * 1000));
	json_u64(j, "memUsed", f->memory);
	json_u64(j, "memTotal", f->memory_max);
	json_u64(j, "memCache", 0);
	json_u64(j, "diskUsed", f->disk);
	json_u64(j, "diskTotal", f->disk_max);
	json_close(j, '}');
}

static void metrics_on_stats(void *ctx, int r, const struct warren_stats *stats,
			     const struct warren_error *err)
{
	AUTO_BUF struct buf out = BUF_INIT(4096);
	struct json j = { .out = &out };
	struct call *c = ctx;
	const struct sandbox *sandbox = c->req ? e2b_sandbox(c) : NULL;
	uint64_t start, end;
	struct figures f;

	if (sandbox && r < 0) {
		call_fail(c, err);
	} else if (sandbox && metrics_times(c, &start, &end)) {
		figures_read(sandbox, stats, &f);
		json_open(&j, NULL, '[');
		if ((uint64_t)f.at / 1000 >= start && (uint64_t)f.at / 1000 <= end)
			metrics_show(&j, NULL, &f);
		json_close(&j, ']');
		call_json(c, 200, &out);
	}
	call_unref(c);
}

void e2b_metrics(struct call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(16);
	struct sandbox *sandbox = e2b_sandbox(c);
	uint64_t start, end;

	if (!sandbox || !metrics_times(c, &start, &end))
		return;
	if (sandbox_row(sandbox)->state == SANDBOX_RUNNING) {
		sandbox_stats(sandbox, metrics_on_stats, call_ref(c));
		return;
	}
	buf_puts(&out, "[]");
	call_json(c, 200, &out);
}

/* -------------------------------------------------------------- several sandboxes */

#define METRICS_MAX 100 /* sandboxes of one request */

struct metrics_all {
	struct call *call;
	size_t waiting;
	struct buf out;
	struct json json;
};

struct metrics_one {
	struct metrics_all *all;
	char sandbox[ID_LEN + 1];
};

/* One of those that the response waits for is complete. */
static void metrics_all_step(struct metrics_all *m)
{
	struct call *c = m->call;

	if (--m->waiting > 0)
		return;
	json_close(&m->json, '}');
	json_close(&m->json, '}');
	if (c->req)
		call_json(c, 200, &m->out);
	buf_done(&m->out);
	free(m);
	call_unref(c);
}

/* A sandbox that ended in the meantime has no metrics. */
static void metrics_all_on_stats(void *ctx, int r, const struct warren_stats *stats,
				 const struct warren_error *err UNUSED)
{
	struct metrics_one *one = ctx;
	struct metrics_all *m = one->all;
	const struct sandbox *sandbox =
		sandbox_find(m->call->v1->service, NULL, one->sandbox);
	struct figures f;

	if (r == 0 && sandbox) {
		figures_read(sandbox, stats, &f);
		metrics_show(&m->json, one->sandbox, &f);
	}
	free(one);
	metrics_all_step(m);
}

static void metrics_all_ask(struct metrics_all *m, const char *id, size_t n)
{
	const struct call *c = m->call;
	bool every = c->caller.scopes & V1_SCOPE_ADMIN;
	struct metrics_one *one = calloc(1, sizeof(*one));
	struct sandbox *sandbox = NULL;

	if (one && n == ID_LEN) {
		(void)memcpy(one->sandbox, id, n);
		sandbox = sandbox_find(c->v1->service, every ? NULL : c->caller.tenant,
				       one->sandbox);
	}
	if (!sandbox || sandbox_row(sandbox)->state != SANDBOX_RUNNING) {
		free(one);
		return;
	}
	one->all = m;
	m->waiting++;
	sandbox_stats(sandbox, metrics_all_on_stats, one);
}

/* Does an earlier part of the list have the same id? */
static bool metrics_is_repeated(const char *list, const char *id, size_t n)
{
	for (; list < id; list += strcspn(list, ",") + 1)
		if (strcspn(list, ",-") == n && memcmp(list, id, n) == 0)
			return true;
	return false;
}

void e2b_metrics_of_all(struct call *c)
{
	AUTO_FREE char *text = e2b_query_whole(c, "sandbox_ids");
	struct metrics_all *m;
	size_t n_ids = 1, n;

	for (const char *at = text; at && *at; at++)
		n_ids += *at == ',';
	if (text && (!text[0] || n_ids > METRICS_MAX)) {
		e2b_refuse(c, 400, "sandbox_ids: must have 1 to %d ids, with commas",
			   METRICS_MAX);
		return;
	}
	m = text ? calloc(1, sizeof(*m)) : NULL;
	if (!m) {
		call_refuse(c, API_ERR_OVERLOADED, "out of memory");
		return;
	}
	*m = (struct metrics_all){ .call = call_ref(c),
				   .waiting = 1,
				   .out = BUF_INIT(65536) };
	m->json.out = &m->out;
	json_open(&m->json, NULL, '{');
	json_open(&m->json, "sandboxes", '{');
	for (const char *at = text, *end; at; at = *end ? end + 1 : NULL) {
		end = at + strcspn(at, ",");
		/* An id may be followed by a dash and the id of a client. */
		n = strcspn(at, ",-");
		if (!metrics_is_repeated(text, at, n))
			metrics_all_ask(m, at, n);
	}
	metrics_all_step(m);
}

/* --------------------------------------------------------------------- the data plane */

static void envd_on_stats(void *ctx, int r, const struct warren_stats *stats,
			  const struct warren_error *err)
{
	AUTO_BUF struct buf out = BUF_INIT(4096);
	struct json j = { .out = &out };
	struct call *c = ctx;
	const struct sandbox *sandbox =
		sandbox_find(c->v1->service, NULL, c->route.sandbox);
	struct figures f;

	if (c->req && r < 0) {
		call_fail(c, err);
	} else if (c->req && !sandbox) {
		e2b_refuse_gone(c);
	} else if (c->req) {
		figures_read(sandbox, stats, &f);
		json_open(&j, NULL, '{');
		json_int(&j, "ts", f.at / 1000);
		json_u64(&j, "cpu_count", f.cpus);
		json_milli(&j, "cpu_used_pct", (uint64_t)(f.cpu_percent * 1000));
		json_u64(&j, "mem_total", f.memory_max);
		json_u64(&j, "mem_used", f.memory);
		json_u64(&j, "mem_cache", 0);
		json_u64(&j, "mem_total_mib", f.memory_max >> 20);
		json_u64(&j, "mem_used_mib", f.memory >> 20);
		json_u64(&j, "disk_used", f.disk);
		json_u64(&j, "disk_total", f.disk_max);
		json_close(&j, '}');
		call_json(c, 200, &out);
	}
	call_unref(c);
}

void e2b_envd_metrics(struct call *c)
{
	struct sandbox *sandbox = sandbox_find(c->v1->service, NULL, c->route.sandbox);

	if (sandbox)
		sandbox_stats(sandbox, envd_on_stats, call_ref(c));
	else
		e2b_refuse_gone(c);
}
