/* SPDX-License-Identifier: Apache-2.0 */
/*
 * warden.c - the table of permitted requests, and the threads that carry them out
 *
 * Requests arrive on one connection. Threads carry them out, tenants in turn (turns.c),
 * and answer. The warden keeps no state between two requests: for each request it finds
 * the sandbox by its id in the run directory, and releases it afterwards. So a new warden
 * can replace one that was killed without losing information. The api sends only one
 * change of a sandbox at a time; otherwise, the second change is refused (claim.h).
 *
 * An attacker may control the api, so the warden trusts none of its requests: it checks
 * each one against its own policy (policy.c), for every backend.
 *
 * A request names a backend (engines.c). Requests to backends other than the native one
 * have separate threads (backend_threads.c), because they wait for other programs.
 *
 * Sandboxes are children of this process or of an earlier one. SIGCHLD is ignored, so
 * that no process has to wait for them.
 */
#include "warden/warden.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/buf.h"
#include "base/fd.h"
#include "core/find.h"
#include "spec/spec.h"
#include "warden/claim.h"
#include "warden/internal.h"
#include "warden/pool.h"
#include "warden/volume.h"

#define ANSWER_MS 10000 /* time to send an answer when memory is short */

struct warden {
	struct engines *engines;
	struct slow *slow;
	struct pool *stock; /* NULL: nothing is prepared in advance */
	struct claims *claims;
	struct images *images;
	struct works *works;
	struct probes *probes;
	struct turns *turns; /* queues of the native backend */
	int egress;          /* pidfd of warren-egress; -1: it was not started */
	struct warden_policy policy;
};

/* A request in progress, and its reply. */
struct work {
	struct warden *w;
	struct warren *engine; /* the engine of the request's backend */
	int sock;
	struct buf reply;    /* data that follows struct warden_proto_reply */
	int fd;              /* sent with the reply; -1: none */
	int cancel;          /* end the request when this can be read; -1: never */
	struct claim *claim; /* of a request that changes a sandbox; otherwise NULL */
};

/* Find a sandbox without contacting it, so that the warden never waits for a process
 * inside. */
static int warden_find(struct work *k, const char *id, struct warren_sandbox **ret,
		       struct warren_error *err)
{
	return warren_find(k->engine, id, ret, err);
}

/* Send a connection to the sandbox's init, with the data that the api needs to use it. */
static int warden_hand_out(struct work *k, struct warren_sandbox *sb,
			   struct warren_error *err)
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

/* The network is captured in the same request, which saves an exchange. */
static int warden_add_captured(struct work *k, struct warren_sandbox *sb,
			       struct warren_error *err)
{
	int fds[WIRE_CREATE_FDS];
	int r = warren_capture_network(sb, fds + 1, err);

	if (r < 0)
		return r;
	fds[0] = k->fd;
	k->fd = fd_bundle(fds, ARRAY_SIZE(fds));
	return k->fd < 0 ? error_errno(err, -k->fd, "pass on the sockets") : 0;
}

static int create_judged(struct work *k, const struct warren_spec *spec,
			 struct warren_error *err)
{
	struct warren_sandbox *sb = NULL;
	bool native = k->engine == engines_native(k->w->engines);
	int r;

	if (native)
		pool_begin(k->w->stock, spec->id);
	r = warren_create(k->engine, spec, &sb, err);
	if (native)
		pool_end(k->w->stock);
	if (r < 0)
		return r;
	r = warden_hand_out(k, sb, err);
	if (r == 0 && spec->network == WARREN_NETWORK_CAPTURED)
		r = warden_add_captured(k, sb, err);
	if (r < 0 && !spec->restore) {
		struct warren_error second = WARREN_ERROR_INIT;

		(void)warren_destroy(sb, &second);
		return r;
	}
	/*
	 * After a failure, a restored sandbox is kept, because its saved files are gone.
	 * Another CREATE finds it awake.
	 */
	sb = warren_release(sb);
	return r;
}

/* Return NULL for the native backend. */
static const struct warden_backend *warden_backend_of(const struct work *k,
						      const struct warden_proto_header *h)
{
	return k->engine == engines_native(k->w->engines)
		       ? NULL
		       : engines_backend(k->w->engines, h->backend);
}

static int do_create(struct work *k, const void *msg, struct warren_error *err)
{
	const struct warden_proto_header *h = msg;
	const char *env[WIRE_ENV_MAX + 1];
	struct warren_mount mounts[WIRE_MOUNTS_MAX];
	struct warren_spec spec;
	bool native = k->engine == engines_native(k->w->engines), counted;
	int r, saved = 0;

	warden_proto_get_create(msg, &spec, env, mounts);
	r = policy_check(&k->w->policy, &spec, err);
	if (r == 0)
		r = policy_check_backend(&k->w->policy, warden_backend_of(k, h),
					 spec.memory, err);
	if (r < 0)
		return r;
	if (!native && spec.image && strcmp(spec.image, WIRE_NO_IMAGE) == 0)
		spec.image = NULL;
	if (!native && spec.image && !policy_may_pull(&k->w->policy, spec.image))
		spec.no_pull = true;
	/* One that hibernates is counted already. */
	if (spec.restore)
		saved = warren_has_saved(k->engine, spec.id, err);
	if (saved < 0)
		return saved;
	counted = !saved;
	r = counted ? claims_count(k->w->claims, k->claim) : 0;
	if (r < 0)
		return error_set(err, -r,
				 "this machine has %ju sandboxes, the maximum that the "
				 "service's configuration (max.sandboxes) allows",
				 (uintmax_t)k->w->policy.max_sandboxes);
	r = egress_need_bundle(&k->w->policy, mounts, spec.n_mounts, err);
	if (r == 0)
		r = policy_open_mounts(&k->w->policy, mounts, spec.n_mounts, err);
	if (r == 0) {
		r = create_judged(k, &spec, err);
		policy_close_mounts(mounts, spec.n_mounts);
	}
	if (counted)
		claims_created(k->w->claims, k->claim, r == 0);
	return r;
}

static int do_connect(struct work *k, const void *msg, struct warren_error *err)
{
	const struct warden_proto_sandbox *sandbox = msg;
	struct warren_sandbox *sb = NULL;
	int r = warden_find(k, sandbox->id, &sb, err);

	if (r == 0)
		r = warden_hand_out(k, sb, err);
	sb = warren_release(sb);
	r = warden_if_saved(k->engine, sandbox->id, r, err);
	return r > 0 ? error_set(err, WIRE_HIBERNATES, "the sandbox hibernates") : r;
}

static int warden_forget_saved(struct work *k, const char *id, struct warren_error *err)
{
	int saved = warren_has_saved(k->engine, id, err);
	int r;

	if (saved < 0)
		return saved;
	if (saved > 0)
		claims_destroying(k->w->claims, k->claim);
	r = warren_forget_saved(k->engine, id, err);
	if (saved > 0)
		claims_destroyed(k->w->claims, k->claim, r == 0);
	return r;
}

/*
 * Destroying a sandbox that is already gone is no error. A sandbox that has ended counts
 * as gone only if nothing of it is left.
 */
static int warden_do_destroy(struct work *k, const void *msg, struct warren_error *err)
{
	const struct warden_proto_sandbox *sandbox = msg;
	struct warren_sandbox *sb = NULL;
	struct warren_error why = WARREN_ERROR_INIT;
	int r = warden_find(k, sandbox->id, &sb, &why);

	if (r == -ESRCH)
		r = warden_find(k, sandbox->id, &sb, &why);
	if (r == -ENOENT)
		return warden_forget_saved(k, sandbox->id, err);
	if (r == -ESRCH)
		return error_set(err, EBUSY, "%s", why.msg);
	if (r < 0) {
		*err = why;
		return r;
	}
	claims_destroying(k->w->claims, k->claim);
	r = warren_destroy(sb, err);
	claims_destroyed(k->w->claims, k->claim, r == 0);
	return r;
}

static int warden_do_pause(struct work *k, const void *msg, struct warren_error *err)
{
	const struct warden_proto_sandbox *sandbox = msg;
	struct warren_sandbox *sb = NULL;
	bool native = k->engine == engines_native(k->w->engines);
	/*
	 * For other backends, only the shim knows whether the sandbox is in memory or in
	 * a file.
	 */
	int r = native ? warden_find(k, sandbox->id, &sb, err)
		       : warren_adopt(k->engine, sandbox->id, &sb, err);

	if (r == 0)
		r = sandbox->h.type == WIRE_PAUSE        ? warren_pause(sb, err)
		    : sandbox->h.type == WIRE_CHECKPOINT ? warren_checkpoint(sb, err)
							 : warren_resume(sb, err);
	sb = warren_release(sb);
	return r;
}

static int warden_do_hibernate(struct work *k, const void *msg, struct warren_error *err)
{
	const struct warden_proto_sandbox *sandbox = msg;

	return warden_hibernate(k->engine, sandbox->id, err);
}

static int warden_do_diff(struct work *k, const void *msg, struct warren_error *err)
{
	const struct warden_proto_diff *m = msg;
	AUTO_CLOSE int fd = memfd_create("warren-diff", MFD_CLOEXEC);
	struct warren_diff diff = { .skip = m->skip,
				    .max = m->max,
				    .image = m->image[0] ? m->image : NULL,
				    .seconds = m->seconds ? (unsigned)m->seconds
							  : WIRE_DIFF_SECONDS,
				    .cancel = k->cancel > 0 ? k->cancel : 0 };
	struct warden_proto_changes changes;
	struct warren_sandbox *sb = NULL;
	int r;

	if (diff.max == 0 || diff.max > WIRE_DIFF_MAX)
		diff.max = WIRE_DIFF_MAX;
	if (fd < 0)
		return error_errno(err, errno, "create a file for the result");
	r = warden_find(k, m->id, &sb, err);
	if (r == 0)
		r = warren_diff(sb, fd, &diff, err);
	sb = warren_release(sb);
	if (r < 0)
		return r;
	changes = (struct warden_proto_changes){ .n = diff.n,
						 .more = diff.more,
						 .too_deep = diff.too_deep };
	buf_add(&k->reply, &changes, sizeof(changes));
	k->fd = TAKE_FD(fd);
	return 0;
}

static int warden_do_undo_keep(struct work *k, const void *msg, struct warren_error *err)
{
	const struct warden_proto_sandbox *sandbox = msg;
	struct warren_sandbox *sb = NULL;
	struct warren_saved saved;
	int r = warden_find(k, sandbox->id, &sb, err);

	if (r == 0)
		r = warren_undo_keep(sb, &saved, err);
	sb = warren_release(sb);
	if (r == 0)
		buf_add(&k->reply, &saved, sizeof(saved));
	return r;
}

static int warden_do_undo(struct work *k, const void *msg, struct warren_error *err)
{
	const struct warden_proto_sandbox *sandbox = msg;
	struct warren_sandbox *sb = NULL;
	struct warren_undone undone;
	int r = warden_find(k, sandbox->id, &sb, err);

	if (r == 0)
		r = warren_undo(sb, &undone, err);
	sb = warren_release(sb);
	if (r == 0)
		buf_add(&k->reply, &undone, sizeof(undone));
	return r;
}

static int warden_do_undo_settle(struct work *k, const void *msg,
				 struct warren_error *err)
{
	const struct warden_proto_sandbox *sandbox = msg;

	return warren_undo_settle(k->engine, sandbox->id,
				  sandbox->h.type == WIRE_UNDO_STARTED, err);
}

static int warden_do_undo_forget(struct work *k, const void *msg,
				 struct warren_error *err)
{
	const struct warden_proto_sandbox *sandbox = msg;

	return warren_undo_forget(k->engine, sandbox->id, err);
}

static int warden_do_cancel(struct work *k, const void *msg,
			    struct warren_error *err UNUSED)
{
	const struct warden_proto_cancel *m = msg;

	slow_cancel(k->w->slow, &m->request);
	return 0;
}

/* Afterwards, a CREATE with .restore creates the sandbox again, from its image. */
static int warden_do_reset(struct work *k, const void *msg, struct warren_error *err)
{
	const struct warden_proto_sandbox *sandbox = msg;
	struct warren_sandbox *sb = NULL;
	int r = warden_find(k, sandbox->id, &sb, err);

	if (r < 0)
		return r;
	r = warren_reset(sb, err);
	if (r < 0)
		sb = warren_release(sb);
	return r;
}

static int warden_do_snapshot(struct work *k, const void *msg, struct warren_error *err)
{
	const struct warden_proto_snapshot *m = msg;
	struct warren_sandbox *sb = NULL;
	int r = warden_find(k, m->id, &sb, err);

	if (r == 0)
		r = snapshot_start(k->w->images, &k->w->policy, sb, m->snapshot, &k->fd,
				   err);
	sb = warren_release(sb);
	return r;
}

static int warden_do_stats(struct work *k, const void *msg, struct warren_error *err)
{
	const struct warden_proto_sandbox *sandbox = msg;
	struct warren_sandbox *sb = NULL;
	struct warden_proto_stats stats = { 0 };
	int r = warden_find(k, sandbox->id, &sb, err);

	if (r == 0)
		r = warren_stats(sb, &stats.is, err);
	if (r == 0)
		stats.kills_apart = warren_kills_apart(sb);
	if (r == 0)
		buf_add(&k->reply, &stats, sizeof(stats));
	sb = warren_release(sb);
	return r;
}

/* Send the sockets of warren_capture_network() in one descriptor: see fd_unbundle(). */
static int warden_do_capture(struct work *k, const void *msg, struct warren_error *err)
{
	const struct warden_proto_sandbox *sandbox = msg;
	struct warren_sandbox *sb = NULL;
	int fds[WARREN_CAPTURE_FDS];
	int r = warden_find(k, sandbox->id, &sb, err);

	if (r == 0)
		r = warren_capture_network(sb, fds, err);
	sb = warren_release(sb);
	if (r < 0)
		return r;
	k->fd = fd_bundle(fds, ARRAY_SIZE(fds));
	return k->fd < 0 ? error_errno(err, -k->fd, "pass on the sockets") : 0;
}

static int warden_do_egress(struct work *k, const void *msg UNUSED,
			    struct warren_error *err)
{
	return egress_start(&k->w->policy, &k->w->egress, &k->fd, err);
}

/* The certificates are those of the configuration: a request cannot choose any. */
static int warden_do_trust(struct work *k, const void *msg, struct warren_error *err)
{
	const struct warden_proto_sandbox *sandbox = msg;
	struct warren_sandbox *sb = NULL;
	AUTO_CLOSE int bundle = -1;
	int r = egress_open_bundle(&k->w->policy, &bundle, err);

	if (r == 0)
		r = warden_find(k, sandbox->id, &sb, err);
	if (r == 0)
		r = warren_trust(sb, bundle, err);
	sb = warren_release(sb);
	return r;
}

static int warden_do_volume(struct work *k, const void *msg, struct warren_error *err)
{
	return volume_carry_out(k->w->policy.volumes, msg, &k->reply, &k->fd, err);
}

static int warden_do_update(struct work *k, const void *msg, struct warren_error *err)
{
	const struct warden_proto_update *u = msg;
	struct warren_limits limits = { 0 };
	struct warren_sandbox *sb = NULL;
	int r;

	for (size_t i = 0; i < SPEC_LIVE_MAX; i++)
		spec_live_set(&limits, i, u->limits[i]);
	r = policy_check_update(&k->w->policy, warden_backend_of(k, &u->h), &limits, err);
	if (r == 0)
		r = warden_find(k, u->id, &sb, err);
	if (r == 0)
		r = warren_update(sb, &limits, err);
	sb = warren_release(sb);
	return r;
}

static int warden_compare_ids(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int do_list(struct work *k, const void *msg, struct warren_error *err)
{
	const struct warden_proto_list *list = msg;
	AUTO_FREE char **ids = NULL;
	size_t n = 0, first = 0;
	int r = list->h.type == WIRE_LIST ? warren_list(k->engine, &ids, err)
					  : warren_list_kept(k->engine, &ids, err);

	if (r < 0)
		return r;
	while (ids && ids[n])
		n++;
	if (n > 0)
		qsort(ids, n, sizeof(*ids), warden_compare_ids);
	while (first < n && strcmp(ids[first], list->after) <= 0)
		first++;
	for (size_t i = first; i < n && i - first < WIRE_LIST_MAX; i++)
		buf_add(&k->reply, ids[i], ID_LEN + 1);
	return 0;
}

static int do_image(struct work *k, const void *msg, struct warren_error *err)
{
	const struct warden_proto_image *m = msg;
	const struct warden_backend *b = engines_backend(k->w->engines, m->h.backend);

	/* "" means all backends with images in Warren's store. */
	if (!b && m->h.backend[0])
		return error_set(err, ENODEV, "the configuration has no backend '%s'",
				 m->h.backend);
	return images_start(k->w->images, &k->w->policy, b, m, &k->fd, err);
}

static int warden_do_work(struct work *k, const void *msg, struct warren_error *err)
{
	return works_start(k->w->works, msg, &k->fd, err);
}

static int warden_do_probe(struct work *k, const void *msg, struct warren_error *err)
{
	const struct warden_proto_header *h = msg;

	return probes_ask(k->w->probes, k->engine, h->seq, k->sock, &k->reply, err);
}

/* Check that a free thread can look up a sandbox, with an id that does not exist. */
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
	bool changes; /* the request changes the sandbox, so only one may run at a time */
} permitted[WIRE_TYPE_MAX] = {
	[WIRE_CREATE] = { do_create, true },
	[WIRE_CONNECT] = { do_connect, false },
	[WIRE_DESTROY] = { warden_do_destroy, true },
	[WIRE_PAUSE] = { warden_do_pause, true },
	[WIRE_CHECKPOINT] = { warden_do_pause, true },
	[WIRE_RESUME] = { warden_do_pause, true },
	[WIRE_STATS] = { warden_do_stats, false },
	[WIRE_UPDATE] = { warden_do_update, true },
	[WIRE_LIST] = { do_list, false },
	[WIRE_IMAGE] = { do_image, false },
	[WIRE_PROBE] = { warden_do_probe, false },
	[WIRE_HEALTH] = { do_health, false },
	[WIRE_EGRESS] = { warden_do_egress, false },
	[WIRE_CAPTURE] = { warden_do_capture, true },
	[WIRE_HIBERNATE] = { warden_do_hibernate, true },
	[WIRE_DIFF] = { warden_do_diff, false },
	[WIRE_UNDO_KEEP] = { warden_do_undo_keep, true },
	[WIRE_UNDO] = { warden_do_undo, true },
	[WIRE_UNDO_FORGET] = { warden_do_undo_forget, false },
	[WIRE_UNDO_STARTED] = { warden_do_undo_settle, false },
	[WIRE_UNDO_BACK] = { warden_do_undo_settle, false },
	[WIRE_SNAPSHOT] = { warden_do_snapshot, true },
	[WIRE_RESET] = { warden_do_reset, true },
	[WIRE_LIST_KEPT] = { do_list, false },
	[WIRE_VOLUME] = { warden_do_volume, false },
	[WIRE_TRUST] = { warden_do_trust, true },
	[WIRE_CANCEL] = { warden_do_cancel, false },
	[WIRE_WORK] = { warden_do_work, false },
};

static int carry_out_one(struct work *k, const void *msg, struct warren_error *err)
{
	const struct warden_proto_header *h = msg;
	struct claim claim;
	int r;

	if (h->type == WIRE_CONNECT &&
	    claims_await(k->w->claims, warden_proto_id(msg)) < 0)
		return error_set(err, EBUSY, "sandbox '%s' is being changed",
				 warden_proto_id(msg));
	if (!permitted[h->type].changes)
		return permitted[h->type].run(k, msg, err);
	r = claims_take(k->w->claims, &claim, warden_proto_id(msg),
			h->type == WIRE_CAPTURE);
	if (r < 0)
		return error_set(err, -r, "sandbox '%s' is already being changed",
				 warden_proto_id(msg));
	k->claim = &claim;
	r = permitted[h->type].run(k, msg, err);
	k->claim = NULL;
	claims_drop(k->w->claims, &claim);
	return r;
}

void warden_reply(int sock, struct warden_proto_reply *reply, const struct buf *data,
		  int *fd)
{
	AUTO_BUF struct buf out = BUF_INIT(2UL * WIRE_MESSAGE_MAX);
	int r = 0;

	reply->size = data ? (uint32_t)data->len : 0;
	buf_add(&out, reply, sizeof(*reply));
	if (data && data->len > 0)
		buf_add(&out, data->data, data->len);
	/* If the peer is gone, the receiving thread notices it next. */
	if (!out.failed)
		r = fd_send_within(sock, out.data, out.len, fd,
				   fd && *fd >= 0 && !reply->err.code, ANSWER_MS);
	/*
	 * The api waits for an answer, so send this short one, which needs no memory and
	 * no descriptor.
	 */
	if (out.failed || fd_may_send_again(r)) {
		(void)error_errno(&reply->err, ENOMEM, "answer");
		reply->size = 0;
		(void)fd_send_within(sock, reply, sizeof(*reply), NULL, 0, ANSWER_MS);
	}
}

/* Does the request concern no backend? */
static bool warden_has_no_engine(uint32_t type)
{
	return type == WIRE_IMAGE || type == WIRE_HEALTH || type == WIRE_EGRESS ||
	       type == WIRE_VOLUME || type == WIRE_CANCEL || type == WIRE_WORK;
}

static void warden_answer(struct work *k, const void *msg, size_t size)
{
	const struct warden_proto_header *h = msg;
	struct warden_proto_reply reply = { .h = { .type = WIRE_REPLY, .seq = h->seq } };
	int r = warden_proto_check(msg, size);

	if (r < 0)
		(void)error_set(&reply.err, EPROTO,
				"the warden does not permit such a request");
	else if (!warden_has_no_engine(h->type))
		r = engines_get(k->w->engines, h->backend, &k->engine, &reply.err);
	if (r == 0)
		r = carry_out_one(k, msg, &reply.err);
	if (r == 0 && k->reply.failed)
		r = error_errno(&reply.err, k->reply.full ? EMSGSIZE : ENOMEM, "answer");
	/* If r is 1, another thread answers. */
	if (r <= 0)
		warden_reply(k->sock, &reply, r == 0 ? &k->reply : NULL, &k->fd);
	if (k->fd >= 0)
		(void)close(k->fd);
}

static void warden_carry_out_slowly(void *ctx, const void *msg, size_t size, int sock,
				    int cancel)
{
	struct work k = { .w = ctx,
			  .sock = sock,
			  .reply = BUF_INIT(WIRE_MESSAGE_MAX),
			  .fd = -1,
			  .cancel = cancel };

	warden_answer(&k, msg, size);
	buf_done(&k.reply);
}

static void warden_carry_out(void *ctx, const void *msg, size_t size, int sock)
{
	warden_carry_out_slowly(ctx, msg, size, sock, -1);
}

/* Does the request copy or compare the files of a sandbox? */
static bool warden_copies(const struct warden_proto_header *h)
{
	const struct warden_proto_create *create = (const void *)h;

	return h->type == WIRE_HIBERNATE || h->type == WIRE_DIFF ||
	       h->type == WIRE_UNDO_KEEP || h->type == WIRE_UNDO ||
	       h->type == WIRE_SNAPSHOT || h->type == WIRE_UNDO_FORGET ||
	       h->type == WIRE_UNDO_STARTED || h->type == WIRE_UNDO_BACK ||
	       h->type == WIRE_TRUST ||
	       (h->type == WIRE_CREATE &&
		create->flags & (SPEC_RESTORE_BIT | SPEC_PERSIST_BIT));
}

/*
 * May the request take long? It does if it is for a backend other than the native one,
 * uses the disk for a volume, or copies files. A malformed request does not, because it
 * is refused at once.
 */
static bool is_slow(const void *msg, size_t size)
{
	const struct warden_proto_header *h = msg;

	return warden_proto_check(msg, size) == 0 &&
	       (h->type == WIRE_VOLUME || warden_copies(h) ||
		(!warden_has_no_engine(h->type) && strcmp(h->backend, WIRE_NATIVE) != 0));
}

static bool put_aside(void *ctx, const void *msg, size_t size, int sock)
{
	const struct warden_proto_header *h = msg;
	struct warden_proto_reply reply = { .h = { .type = WIRE_REPLY, .seq = h->seq } };
	struct warden *w = ctx;
	int r;

	if (!is_slow(msg, size))
		return false;
	r = slow_put(w->slow, msg, size, sock);
	if (r < 0) {
		(void)error_errno(&reply.err, -r, "query backend '%s'", h->backend);
		warden_reply(sock, &reply, NULL, NULL);
	}
	return true;
}

static const struct turns_ops native_ops = {
	.put_aside = put_aside,
	.carry_out = warden_carry_out,
};

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
	w->egress = -1;
	(void)signal(SIGCHLD, SIG_IGN);
	volume_recover(policy->volumes);
	w->probes = probes_new();
	w->turns = turns_new(&native_ops, w);
	w->slow = slow_new(warden_carry_out_slowly, w);
	w->images = images_new();
	w->works = works_new();
	r = w->slow && w->images && w->works && w->probes && w->turns
		    ? engines_new(options, native, backends, n, &w->engines, err)
		    : error_errno(err, ENOMEM, "start the warden");
	if (r == 0) /* remove the leftovers of the engines now */
		w->claims = claims_new(options->run_dir, options->state_dir,
				       policy->max_sandboxes);
	if (r == 0 && !w->claims)
		r = error_errno(err, ENOMEM, "start the warden");
	if (r < 0) {
		if (w->slow)
			w->slow = slow_stop(w->slow);
		w->images = images_free(w->images);
		w->works = works_free(w->works);
		w->probes = probes_free(w->probes);
		w->turns = turns_free(w->turns);
		if (w->engines)
			w->engines = engines_free(w->engines);
		free(w);
		return r;
	}
	w->stock = pool_open(engines_native(w->engines), policy->parts_min,
			     policy->parts_max);
	*ret = w;
	return 0;
}

struct warden *warden_close(struct warden *w)
{
	if (!w)
		return NULL;
	w->stock = pool_close(w->stock);
	egress_kill(&w->egress);
	/* If a request still waits for another program, keep everything it uses. */
	w->slow = slow_stop(w->slow);
	if (w->slow)
		return NULL;
	w->engines = engines_free(w->engines);
	w->claims = claims_free(w->claims);
	w->images = images_free(w->images);
	w->works = works_free(w->works);
	w->probes = probes_free(w->probes);
	w->turns = turns_free(w->turns);
	free(w);
	return NULL;
}

int warden_serve(struct warden *w, int sock, struct warren_error *err)
{
	int r;

	pool_tell(w->stock, sock);
	r = turns_start(w->turns, sock);
	return r < 0 ? error_errno(err, -r, "start a thread") : 0;
}

void warden_hold(struct warden *w, bool hold)
{
	pool_hold(w->stock, hold);
}

bool warden_join(struct warden *w, unsigned ms)
{
	bool ended;

	pool_tell(w->stock, -1);
	ended = turns_join(w->turns, ms);
	/* The api has ended: no client waits for what only reads. */
	slow_cancel(w->slow, NULL);
	return ended;
}
