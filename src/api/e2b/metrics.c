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

static void figures_read(const struct sandbox *sandbox, const struct warren_stats *stats,
			 struct figures *ret)
{
	const struct sandbox_row *row = sandbox_row(sandbox);
	struct sample *last = sample_of(row->id);
	bool known =
		strcmp(last->sandbox, row->id) == 0 && last->cpu_usec <= stats->cpu_usec;
	int64_t now = service_time(), since = known ? last->at : row->created_at;
	uint64_t used = stats->cpu_usec - (known ? last->cpu_usec : 0);
	struct sysinfo machine = { 0 };

	(void)sysinfo(&machine);
	*ret = (struct figures){
		.at = service_wall(now),
		.cpus = row->cpu_millis ? (row->cpu_millis + 999) / 1000
					: (uint64_t)sysconf(_SC_NPROCESSORS_ONLN),
		.memory = stats->memory,
		.memory_max = row->memory ? row->memory
					  : (uint64_t)machine.totalram * machine.mem_unit,
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

/* Is the time within the parameters `start` and `end`, in seconds? */
static bool metrics_wanted(const struct call *c, int64_t at)
{
	struct warren_error why = WARREN_ERROR_INIT;
	uint64_t seconds;
	char text[32];

	if (e2b_query(c, "start", text, sizeof(text)) &&
	    parse_u64(text, INT64_MAX / 1000, &seconds, &why) == 0 &&
	    at / 1000 < (int64_t)seconds)
		return false;
	return !(e2b_query(c, "end", text, sizeof(text)) &&
		 parse_u64(text, INT64_MAX / 1000, &seconds, &why) == 0 &&
		 at / 1000 > (int64_t)seconds);
}

static void metrics_show(struct json *j, const struct figures *f)
{
	char text[DATE_SIZE];

	json_open(j, NULL, '{');
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
	struct figures f;

	if (sandbox && r < 0) {
		call_fail(c, err);
	} else if (sandbox) {
		figures_read(sandbox, stats, &f);
		json_open(&j, NULL, '[');
		if (metrics_wanted(c, f.at))
			metrics_show(&j, &f);
		json_close(&j, ']');
		call_json(c, 200, &out);
	}
	call_unref(c);
}

void e2b_metrics(struct call *c)
{
	AUTO_BUF struct buf out = BUF_INIT(16);
	struct sandbox *sandbox = e2b_sandbox(c);

	if (!sandbox)
		return;
	if (sandbox_row(sandbox)->state == SANDBOX_RUNNING) {
		sandbox_stats(sandbox, metrics_on_stats, call_ref(c));
		return;
	}
	buf_puts(&out, "[]");
	call_json(c, 200, &out);
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
