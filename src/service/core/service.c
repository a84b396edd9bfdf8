/* SPDX-License-Identifier: Apache-2.0 */
/* service.c - the service as a whole: its parts, its clock, its metrics */
#include "service/core/service.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "proto/warden_proto.h"
#include "service/core/internal.h"

#define WRITERS_MAX 128 /* maximum number of concurrent threads, see file_writer.h */
#define MEMORY_MAX  (256ULL << 20) /* maximum number of bytes, see LEASE_MEMORY */
/*
 * The kernel allows 4,096 terminals (kernel.pty.max), of which 1,024 are reserved for the
 * host itself.
 */
#define TERMINALS_MAX 3072
#define HEALTH_MS     2000 /* time for the warden to answer a health check */

/* The bounds range from half a millisecond to a minute. */
const uint64_t figure_bounds_usec[FIGURE_BUCKETS] = {
	500,   1000,  2000,   3000,   5000,    10000,   15000,
	25000, 50000, 100000, 500000, 1000000, 5000000, 60000000,
};

void service_ignore(void *ctx UNUSED, int r UNUSED, const struct warren_error *err UNUSED)
{
}

struct db *service_db(struct service *s)
{
	return s->db;
}

struct net_loop *service_loop(struct service *s)
{
	return s->loop;
}

struct metrics *service_metrics(struct service *s)
{
	return &s->metrics;
}

void figure_add(struct service *s, enum figure f, uint64_t usec)
{
	struct histogram *h = &s->metrics.latency[f];
	size_t i = 0;

	while (i < FIGURE_BUCKETS && usec > figure_bounds_usec[i])
		i++;
	h->count[i]++;
	h->sum_usec += usec;
}

static void on_asking_timer(void *ctx)
{
	init_conn_check_due(ctx);
}

static int service_modules_open(struct service *s, const struct service_options *o,
				struct warren_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && s->hooks[i]; i++) {
		const struct service_module *module = s->hooks[i];

		s->modules[module->number] = calloc(1, module->service_size);
		if (!s->modules[module->number])
			return error_errno(err, ENOMEM, "start the service");
		r = module->open ? module->open(s, o, err) : 0;
	}
	return r;
}

/* Close the modules in reverse order, because a module uses those before it. */
static void service_modules_close(struct service *s)
{
	size_t n = 0;

	while (s->hooks[n])
		n++;
	while (n-- > 0) {
		const struct service_module *module = s->hooks[n];

		if (module->close && s->modules[module->number])
			module->close(s);
		free(s->modules[module->number]);
		s->modules[module->number] = NULL;
	}
}

void service_hide_dirs(const struct service *s, char *text)
{
	for (size_t i = 0; s->private_dirs && s->private_dirs[i]; i++)
		error_hide_dir(text, s->private_dirs[i]);
}

int service_new(const struct service_options *o, struct service **ret,
		struct warren_error *err)
{
	struct service *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return error_errno(err, ENOMEM, "start the service");
	s->loop = o->loop;
	s->db = o->db;
	s->journals = o->journals;
	s->secret_key = strdup(o->secret_key);
	s->hooks = o->modules;
	s->backends = o->backends;
	s->private_dirs = o->private_dirs;
	r = service_clock_run(s->db, o->run_id, o->run_since, &s->run_since, err);
	if (r < 0) {
		free(s->secret_key);
		free(s);
		return r;
	}
	/*
	 * A single tenant gets at most three quarters. Ten thousand sandboxes need one
	 * descriptor each.
	 */
	s->shares[LEASE_DESCRIPTORS] = (struct fair_quota){
		.limit = o->descriptors_max ? o->descriptors_max : UINT32_MAX, .weight = 3
	};
	s->shares[LEASE_OUTPUT] = (struct fair_quota){ .limit = o->output_max };
	s->output_by_disk = o->output_max == 0;
	s->shares[LEASE_WRITERS] = (struct fair_quota){ .limit = WRITERS_MAX };
	s->shares[LEASE_TERMINALS] = (struct fair_quota){ .limit = TERMINALS_MAX };
	s->shares[LEASE_MEMORY] = (struct fair_quota){ .limit = MEMORY_MAX };
	s->warden_conn.sock = -1;
	r = s->secret_key ? loop_timer_new(s->loop, on_asking_timer, s, &s->asking_timer)
			  : -ENOMEM;
	if (r == 0)
		r = tidy_open(s);
	if (r == 0)
		r = orphans_open(s);
	if (r == 0)
		r = prune_open(s);
	if (r == 0)
		r = disk_open(s);
	if (r < 0)
		r = error_errno(err, -r, "start the service");
	if (r == 0)
		r = event_open(s, err);
	if (r == 0)
		r = service_modules_open(s, o, err);
	if (r == 0)
		r = warden_conn_open(s, o->warden, err);
	if (r < 0) {
		s = service_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

struct service *service_free(struct service *s)
{
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (!s)
		return NULL;
	survive(s, service_clock_save(s->db, &ignored));
	warden_conn_close(s);
	for (size_t i = 0; i < SANDBOX_BUCKETS; i++)
		while (s->sandboxes[i])
			sandbox_free(s->sandboxes[i]);
	s->asking_timer = loop_timer_free(s->asking_timer);
	tidy_close(s);
	orphans_close(s);
	prune_close(s);
	disk_close(s);
	service_modules_close(s);
	event_close(s);
	if (s->journals >= 0)
		(void)close(s->journals);
	free(s->secret_key);
	free(s);
	return NULL;
}

/* ------------------------------------------------------------------- health */

struct health_ask {
	service_done_fn done; /* NULL: it has been called */
	void *ctx;
	struct loop_timer *timer;
};

static void health_answer(struct health_ask *h, int r, const struct warren_error *err)
{
	service_done_fn done = h->done;

	h->done = NULL;
	h->timer = loop_timer_free(h->timer);
	if (done)
		done(h->ctx, r, err);
}

static void service_on_health(void *ctx, const struct warren_error *failure,
			      const char *data UNUSED, size_t size UNUSED, int fd)
{
	if (fd >= 0)
		(void)close(fd);
	health_answer(ctx, failure ? -failure->code : 0, failure);
	free(ctx);
}

static void on_health_late(void *ctx)
{
	struct warren_error err = WARREN_ERROR_INIT;

	health_answer(ctx, error_set(&err, ETIMEDOUT, "the warden does not answer"),
		      &err);
}

void service_check_warden(struct service *s, service_done_fn done, void *ctx)
{
	struct warden_proto_header msg = { .type = WIRE_HEALTH };
	struct warren_error err = WARREN_ERROR_INIT;
	struct health_ask *h = calloc(1, sizeof(*h));
	int r = -ENOMEM;

	if (h) {
		*h = (struct health_ask){ .done = done, .ctx = ctx };
		r = loop_timer_new(s->loop, on_health_late, h, &h->timer);
	}
	if (r == 0) {
		loop_timer_set(h->timer, HEALTH_MS);
		r = warden_conn_ask(s, &msg, sizeof(msg), service_on_health, h);
	}
	if (r == 0)
		return;
	if (h)
		h->timer = loop_timer_free(h->timer);
	free(h);
	done(ctx, error_errno(&err, -r, "send a request to the warden"), &err);
}

size_t service_count_at(const struct service *s, const char *backend)
{
	size_t n = 0;

	for (size_t i = 0; i < SANDBOX_BUCKETS; i++)
		for (const struct sandbox *sandbox = s->sandboxes[i]; sandbox;
		     sandbox = sandbox->hash_next)
			n += strcmp(sandbox->row.backend, backend) == 0;
	return n;
}

struct probing {
	void (*done)(void *ctx, int r, const char *json, const struct warren_error *err);
	void *ctx;
};

static void service_on_probed(void *ctx, const struct warren_error *failure,
			      const char *data, size_t size, int fd)
{
	struct probing *p = ctx;
	char *json = failure ? NULL : strndup(data, size);

	if (fd >= 0)
		(void)close(fd);
	p->done(p->ctx, failure ? -failure->code : 0, json ? json : "[]", failure);
	free(json);
	free(p);
}

void service_probe(struct service *s, const char *backend,
		   void (*done)(void *ctx, int r, const char *json,
				const struct warren_error *err),
		   void *ctx)
{
	struct warden_proto_header msg = { .type = WIRE_PROBE };
	struct probing *p = malloc(sizeof(*p));
	struct warren_error err = WARREN_ERROR_INIT;
	int r = -ENOMEM;

	if (p) {
		*p = (struct probing){ done, ctx };
		r = warden_proto_put_backend(&msg, backend);
	}
	if (p && r == 0) {
		r = warden_conn_ask(s, &msg, sizeof(msg), service_on_probed, p);
	}
	if (r < 0) {
		free(p);
		done(ctx, error_errno(&err, -r, "send a request to the warden"), NULL,
		     &err);
	}
}

void service_on_note(struct service *s, void (*fn)(void *ctx, const char *text),
		     void *ctx)
{
	s->note = fn;
	s->note_ctx = ctx;
}

void service_on_warden_end(struct service *s, void (*fn)(void *ctx), void *ctx)
{
	s->warden_conn.ended = fn;
	s->warden_conn.ctx = ctx;
}
