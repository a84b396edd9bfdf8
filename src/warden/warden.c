/* SPDX-License-Identifier: Apache-2.0 */
/*
 * warden.c - the table of permitted requests, and the threads that carry them out
 *
 * Some threads wait on one connection; each takes the next request, whatever
 * it is, carries it out and answers. The warden remembers nothing between two
 * requests: a sandbox is found by its id in the run directory each time and let
 * go of afterwards, so that a warden that was killed is replaced by one that
 * knows as much. The api sees to it that no two changes of one sandbox are asked
 * for at a time; if it does not, the second is refused (claim.h).
 *
 * The api may have been taken over, and is believed nothing: what a request asks for is
 * judged by the warden's own policy (policy.c), whichever backend it is for.
 *
 * A request names a backend (engine.c); those to others than the native one go to threads of
 * their own (slow.c), as other programs take part in them.
 *
 * Sandboxes are children of this process or of one that is gone: SIGCHLD is
 * ignored, so that nobody has to wait for them.
 */
#include "warden/warden.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "core/find.h"
#include "warden/claim.h"
#include "warden/internal.h"
#include "warden/stock.h"

#define PROBED_MAX 16
#define PROBED_NS  1000000000ULL
#define ANSWER_MS  10000 /* for an answer to be sent, when memory is short */

/* What an engine can do, as it was told last. */
struct probed {
	const struct warren *engine;
	char *json;
	size_t size;
	uint64_t at;
};

struct warden {
	struct engines *engines;
	struct slow *slow;
	struct stock *stock; /* NULL: nothing is made ahead */
	struct claims *claims;
	struct images *images;
	pthread_mutex_t probing; /* the features of an engine are in memory of its own */
	struct probed probed[PROBED_MAX];
	struct warden_policy policy;
	pthread_t threads[WARDEN_THREADS];
	size_t n_threads;
	int sock;
};

/* A request under way: what its reply will be. */
struct work {
	struct warden *w;
	struct warren *engine; /* of the backend that is meant */
	int sock;
	struct buf reply; /* what follows struct wire_reply */
	int fd;           /* goes along; -1: none */
};

/* Nothing of what the warden does waits for what is inside: it is not asked. */
static int find(struct work *k, const char *id, struct warren_sandbox **ret,
		struct warren_error *err)
{
	return warren_find(k->engine, id, ret, err);
}

/* A connection to its init, and what an api must know to speak over it. */
static int hand_out(struct work *k, struct warren_sandbox *sb, struct warren_error *err)
{
	char *text = NULL;
	size_t size = 0;
	int r = warren_connection(sb, &k->fd, err);

	if (r == 0)
		r = warren_describe(sb, &text, &size, err);
	if (r == 0)
		buf_add(&k->reply, text, size);
	free(text);
	return r;
}

static int create_judged(struct work *k, const struct warren_spec *spec,
			 struct warren_error *err)
{
	struct warren_sandbox *sb = NULL;
	bool native = k->engine == engines_native(k->w->engines);
	int r;

	if (native)
		stock_begin(k->w->stock, spec->id);
	r = warren_create(k->engine, spec, &sb, err);
	if (native)
		stock_end(k->w->stock);
	if (r < 0)
		return r;
	r = hand_out(k, sb, err);
	if (r < 0) {
		struct warren_error second = WARREN_ERROR_INIT;

		(void)warren_destroy(sb, &second);
		return r;
	}
	sb = warren_release(sb);
	return 0;
}

static int do_create(struct work *k, const void *msg, struct warren_error *err)
{
	const struct wire_header *h = msg;
	const char *env[WIRE_ENV_MAX + 1];
	struct warren_mount mounts[WIRE_MOUNTS_MAX];
	struct warren_spec spec;
	bool native = k->engine == engines_native(k->w->engines);
	int r;

	wire_get_create(msg, &spec, env, mounts);
	r = policy_check(&k->w->policy, &spec, err);
	if (r == 0)
		r = policy_check_place(
			&k->w->policy,
			native ? NULL : engines_backend(k->w->engines, h->backend),
			spec.memory, err);
	if (r < 0)
		return r;
	if (!native && spec.image && strcmp(spec.image, WIRE_NO_IMAGE) == 0)
		spec.image = NULL;
	if (!native && spec.image && !policy_may_pull(&k->w->policy, spec.image))
		spec.no_pull = true;
	r = claims_count(k->w->claims);
	if (r < 0)
		return error_set(
			err, -r,
			"this machine has %ju sandboxes, which is as many as the "
			"service's configuration (max.sandboxes) allows",
			(uintmax_t)k->w->policy.max_sandboxes);
	r = policy_open_mounts(&k->w->policy, mounts, spec.n_mounts, err);
	if (r == 0) {
		r = create_judged(k, &spec, err);
		policy_close_mounts(mounts, spec.n_mounts);
	}
	claims_created(k->w->claims, r == 0);
	return r;
}

static int do_connect(struct work *k, const void *msg, struct warren_error *err)
{
	const struct wire_box *box = msg;
	struct warren_sandbox *sb = NULL;
	int r = find(k, box->id, &sb, err);

	if (r == 0)
		r = hand_out(k, sb, err);
	sb = warren_release(sb);
	return r;
}

/* What is gone already is as it should be. */
static int do_destroy(struct work *k, const void *msg, struct warren_error *err)
{
	const struct wire_box *box = msg;
	struct warren_sandbox *sb = NULL;
	struct warren_error why = WARREN_ERROR_INIT;
	int r = find(k, box->id, &sb, &why);

	if (r == -ENOENT || r == -ESRCH)
		return 0;
	if (r < 0) {
		*err = why;
		return r;
	}
	r = warren_destroy(sb, err);
	if (r == 0)
		claims_destroyed(k->w->claims);
	return r;
}

static int do_pause(struct work *k, const void *msg, struct warren_error *err)
{
	const struct wire_box *box = msg;
	struct warren_sandbox *sb = NULL;
	bool native = k->engine == engines_native(k->w->engines);
	/* Only its keeper knows whether one of another platform is in memory or in a file. */
	int r = native ? find(k, box->id, &sb, err)
		       : warren_adopt(k->engine, box->id, &sb, err);

	if (r == 0)
		r = box->h.type == WIRE_PAUSE        ? warren_pause(sb, err)
		    : box->h.type == WIRE_CHECKPOINT ? warren_checkpoint(sb, err)
						     : warren_resume(sb, err);
	sb = warren_release(sb);
	return r;
}

static int do_stats(struct work *k, const void *msg, struct warren_error *err)
{
	const struct wire_box *box = msg;
	struct warren_sandbox *sb = NULL;
	struct wire_stats stats = { 0 };
	int r = find(k, box->id, &sb, err);

	if (r == 0)
		r = warren_stats(sb, &stats.is, err);
	if (r == 0)
		stats.kills_apart = warren_kills_apart(sb);
	if (r == 0)
		buf_add(&k->reply, &stats, sizeof(stats));
	sb = warren_release(sb);
	return r;
}

static int do_update(struct work *k, const void *msg, struct warren_error *err)
{
	const struct wire_update *u = msg;
	struct warren_limits limits = { u->memory, u->cpu_millis, u->pids };
	struct warren_sandbox *sb = NULL;
	int r = policy_check_update(&k->w->policy, &limits, err);

	if (r == 0)
		r = find(k, u->id, &sb, err);
	if (r == 0)
		r = warren_update(sb, &limits, err);
	sb = warren_release(sb);
	return r;
}

static int do_list(struct work *k, const void *msg UNUSED, struct warren_error *err)
{
	char **ids = NULL;
	int r = warren_list(k->engine, &ids, err);

	for (char **id = ids; r == 0 && id && *id; id++)
		buf_add(&k->reply, *id, strlen(*id) + 1);
	free(ids);
	return r;
}

static int do_image(struct work *k, const void *msg, struct warren_error *err)
{
	const struct wire_image *m = msg;
	const struct warden_backend *b = engines_backend(k->w->engines, m->h.backend);

	/* "": whoever has images in our store. */
	if (!b && m->h.backend[0])
		return error_set(err, ENODEV, "the configuration has no backend '%s'",
				 m->h.backend);
	return images_start(k->w->images, &k->w->policy, b, m, &k->fd, err);
}

static int probe(struct work *k, struct warren_error *err)
{
	const struct warren_feature *f;
	struct json j = { .out = &k->reply };
	size_t n = 0;
	int r = warren_probe(k->engine, &f, &n, err);

	if (r < 0)
		return r;
	json_open(&j, NULL, '[');
	for (size_t i = 0; i < n; i++) {
		json_open(&j, NULL, '{');
		json_str(&j, "name", f[i].name);
		json_bool(&j, "ok", f[i].ok);
		json_bool(&j, "required", f[i].required);
		json_str(&j, "detail", f[i].detail);
		json_str(&j, "effect", f[i].effect);
		json_str(&j, "fix", f[i].fix);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	return 0;
}

/* What was found a moment ago will do: many who ask at once do not keep all threads. */
static int probe_once(struct work *k, struct warren_error *err)
{
	struct probed *p = k->w->probed;
	int r;

	for (size_t i = 0; i < PROBED_MAX && p->engine && p->engine != k->engine; i++)
		p = &k->w->probed[(i + 1) % PROBED_MAX];
	if (p->engine == k->engine && clock_now() - p->at < PROBED_NS) {
		buf_add(&k->reply, p->json, p->size);
		return 0;
	}
	r = probe(k, err);
	if (r < 0 || k->reply.failed)
		return r;
	free(p->json);
	p->json = malloc(k->reply.len);
	p->engine = p->json ? k->engine : NULL;
	p->size = p->json ? k->reply.len : 0;
	p->at = clock_now();
	if (p->json)
		(void)memcpy(p->json, k->reply.data, k->reply.len);
	return 0;
}

static int do_probe(struct work *k, const void *msg UNUSED, struct warren_error *err)
{
	int r;

	(void)pthread_mutex_lock(&k->w->probing);
	r = probe_once(k, err);
	(void)pthread_mutex_unlock(&k->w->probing);
	return r;
}

/* Whether we can do what we are for: by a thread that is free, find out that there is no such one. */
static int do_health(struct work *k, const void *msg UNUSED, struct warren_error *err)
{
	struct warren_error why = WARREN_ERROR_INIT;
	struct warren_sandbox *sb = NULL;
	char id[ID_LEN + 1];
	int r;

	id_make(id);
	r = warren_find(engines_native(k->w->engines), id, &sb, &why);
	sb = warren_release(sb);
	if (r == -ENOENT || r == 0)
		return 0;
	*err = why;
	return r;
}

static const struct {
	int (*run)(struct work *k, const void *msg, struct warren_error *err);
	bool changes; /* the sandbox, which nobody else may change meanwhile */
} permitted[WIRE_TYPE_MAX] = {
	[WIRE_CREATE] = { do_create, true },    [WIRE_CONNECT] = { do_connect, false },
	[WIRE_DESTROY] = { do_destroy, true },  [WIRE_PAUSE] = { do_pause, true },
	[WIRE_CHECKPOINT] = { do_pause, true }, [WIRE_RESUME] = { do_pause, true },
	[WIRE_STATS] = { do_stats, false },     [WIRE_UPDATE] = { do_update, true },
	[WIRE_LIST] = { do_list, false },       [WIRE_IMAGE] = { do_image, false },
	[WIRE_PROBE] = { do_probe, false },     [WIRE_HEALTH] = { do_health, false },
};

static int carry_out_one(struct work *k, const void *msg, struct warren_error *err)
{
	const struct wire_header *h = msg;
	struct claim claim;
	int r;

	if (!permitted[h->type].changes)
		return permitted[h->type].run(k, msg, err);
	r = claims_take(k->w->claims, &claim, wire_id(msg));
	if (r < 0)
		return error_set(err, -r, "another change of sandbox '%s' is under way",
				 wire_id(msg));
	r = permitted[h->type].run(k, msg, err);
	claims_drop(k->w->claims, &claim);
	return r;
}

static void answer(struct work *k, const void *msg, size_t size)
{
	const struct wire_header *h = msg;
	AUTO_BUF struct buf out = BUF_INIT(2UL * WIRE_MESSAGE_MAX);
	struct wire_reply reply = { .h = { .type = WIRE_REPLY, .seq = h->seq } };
	int r = wire_check(msg, size);

	if (r < 0)
		(void)error_set(&reply.err, EPROTO, "the warden permits no such request");
	else if (h->type != WIRE_IMAGE && h->type != WIRE_HEALTH)
		r = engines_get(k->w->engines, h->backend, &k->engine, &reply.err);
	if (r == 0)
		r = carry_out_one(k, msg, &reply.err);
	if (r == 0 && k->reply.failed)
		r = error_errno(&reply.err, k->reply.full ? EMSGSIZE : ENOMEM, "answer");
	if (r < 0)
		k->reply.len = 0;
	reply.size = (uint32_t)k->reply.len;
	buf_add(&out, &reply, sizeof(reply));
	if (k->reply.len > 0)
		buf_add(&out, k->reply.data, k->reply.len);
	/* Nobody there any more: the thread sees that next. */
	if (!out.failed)
		r = fd_send_within(k->sock, out.data, out.len, &k->fd,
				   k->fd >= 0 && r == 0, ANSWER_MS);
	/* Who asked waits until something is said: this much needs no memory and no descriptor. */
	if (out.failed || fd_may_send_again(r)) {
		(void)error_errno(&reply.err, ENOMEM, "answer");
		reply.size = 0;
		(void)fd_send_within(k->sock, &reply, sizeof(reply), NULL, 0, ANSWER_MS);
	}
	if (k->fd >= 0)
		(void)close(k->fd);
}

static void carry_out(void *ctx, const void *msg, size_t size, int sock)
{
	struct work k = {
		.w = ctx, .sock = sock, .reply = BUF_INIT(WIRE_MESSAGE_MAX), .fd = -1
	};

	answer(&k, msg, size);
	buf_done(&k.reply);
}

/* Is it for one of the others? What is malformed is refused at once. */
static bool is_slow(const void *msg, size_t size)
{
	const struct wire_header *h = msg;

	return wire_check(msg, size) == 0 && h->type != WIRE_IMAGE &&
	       h->type != WIRE_HEALTH && strcmp(h->backend, WIRE_NATIVE) != 0;
}

static void put_aside(struct warden *w, const void *msg, size_t size)
{
	const struct wire_header *h = msg;
	struct wire_reply reply = { .h = { .type = WIRE_REPLY, .seq = h->seq } };
	int r = slow_put(w->slow, msg, size, w->sock);

	if (r == 0)
		return;
	(void)error_errno(&reply.err, -r, "ask backend '%s'", h->backend);
	(void)fd_send_within(w->sock, &reply, sizeof(reply), NULL, 0, ANSWER_MS);
}

/*
 * Is the api gone? A message of no length reads as its end does, and other errors (descriptors
 * that nobody asked for, a want of memory) are those of one message.
 */
static bool is_over(int sock)
{
	struct pollfd p = { .fd = sock, .events = POLLRDHUP };

	return poll(&p, 1, 0) > 0 &&
	       p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL);
}

static void *work_main(void *arg)
{
	struct warden *w = arg;
	char *msg = malloc(WIRE_MESSAGE_MAX);

	while (msg) {
		size_t n_fds = 0;
		ssize_t n = fd_recv(w->sock, msg, WIRE_MESSAGE_MAX, NULL, &n_fds, 0);

		if (n <= 0 && is_over(w->sock))
			break;
		if (n < (ssize_t)sizeof(struct wire_header))
			continue;
		if (!is_slow(msg, (size_t)n))
			carry_out(w, msg, (size_t)n, w->sock);
		else
			put_aside(w, msg, (size_t)n);
	}
	free(msg);
	return NULL;
}

int warden_open(const struct warren_options *options, bool native,
		const struct warden_backend *backends, size_t n,
		const struct warden_policy *policy, struct warden **ret,
		struct warren_error *err)
{
	struct warden *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return error_errno(err, ENOMEM, "start the warden");
	w->policy = *policy;
	w->sock = -1;
	(void)signal(SIGCHLD, SIG_IGN);
	(void)pthread_mutex_init(&w->probing, NULL);
	w->slow = slow_new(carry_out, w);
	w->images = images_new();
	r = w->slow && w->images
		    ? engines_new(options, native, backends, n, &w->engines, err)
		    : error_errno(err, ENOMEM, "start the warden");
	if (r == 0) /* what the engines left is gone now */
		w->claims = claims_new(options->run_dir, policy->max_sandboxes);
	if (r == 0 && !w->claims)
		r = error_errno(err, ENOMEM, "start the warden");
	if (r < 0) {
		if (w->slow)
			w->slow = slow_stop(w->slow);
		w->images = images_free(w->images);
		if (w->engines)
			w->engines = engines_free(w->engines);
		free(w);
		return r;
	}
	w->stock = stock_open(engines_native(w->engines), policy->parts_min,
			      policy->parts_max);
	*ret = w;
	return 0;
}

struct warden *warden_close(struct warden *w)
{
	if (!w)
		return NULL;
	w->stock = stock_close(w->stock);
	/* What another program takes part in, and does not end, keeps what it uses. */
	w->slow = slow_stop(w->slow);
	if (w->slow)
		return NULL;
	w->engines = engines_free(w->engines);
	w->claims = claims_free(w->claims);
	w->images = images_free(w->images);
	(void)pthread_mutex_destroy(&w->probing);
	for (size_t i = 0; i < PROBED_MAX; i++)
		free(w->probed[i].json);
	free(w);
	return NULL;
}

int warden_serve(struct warden *w, int sock, struct warren_error *err)
{
	w->sock = sock;
	stock_tell(w->stock, sock);
	for (w->n_threads = 0; w->n_threads < WARDEN_THREADS; w->n_threads++) {
		int r = pthread_create(&w->threads[w->n_threads], NULL, work_main, w);

		if (r != 0 && w->n_threads == 0)
			return error_errno(err, r, "start a thread");
		if (r != 0)
			break;
	}
	return 0;
}

void warden_hold(struct warden *w, bool hold)
{
	stock_hold(w->stock, hold);
}

bool warden_join(struct warden *w, unsigned ms)
{
	struct timespec end;

	stock_tell(w->stock, -1);
	(void)clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += ms / 1000;
	for (; w->n_threads > 0; w->n_threads--) {
		pthread_t thread = w->threads[w->n_threads - 1];

		if (ms == 0)
			(void)pthread_join(thread, NULL);
		else if (pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &end) != 0)
			return false;
	}
	return true;
}
