/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prepared.c - prepare the common parts of sandboxes in advance
 *
 * A create spends most of its time on work that does not depend on the spec: namespaces,
 * above all the network namespace, cgroups, a filtered and waiting init, a masked /proc.
 * The first table below does all of this in advance and creates a "part"; the second
 * turns a part into a sandbox: limits, layers, volumes, host name. A part is used for one
 * sandbox only.
 *
 * A part already has the id, the range of ids and the socket of its future sandbox. It
 * has no state file and has not received KEEP (durable.h), so it ends together with its
 * creator; the next engine of the same name removes the rest.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>

#include "backend/native/create_op.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"

#define STAGED_DISK   (64U << 20) /* used until the spec is known */
#define INJECT_MAKE   1001        /* step numbers for tests */
#define INJECT_FINISH 1101
#define INJECT_INSIDE 1200

struct native_prepared {
	struct native_prepared *next;
	struct create_op m;
};

/* ----------------------------------------------------------------- creation of a part */

/* The fields of a spec that are known in advance. */
static const struct warren_spec any = { .durable = true };

static int say_mapped(struct create_op *m, struct warren_error *err)
{
	struct proto_header h = { .version = PROTO_VERSION, .type = PROTO_MOUNTS };
	int r = fd_send(m->sandbox->control, &h, sizeof(h), NULL, 0);

	return r < 0 ? error_errno(err, -r, "report that the ids are mapped") : 0;
}

static const struct create_op_step make_steps[] = {
	{ "claim an id range", create_claim },
	{ "create the cgroup", create_cgroup_before },
	{ "start the child", create_child },
	{ "write the id maps", create_maps, true },
	{ "notify the child", say_mapped, true },
	{ "create the cgroup in parallel", create_cgroup_meanwhile, true },
	{ "configure init", create_configure, true },
	{ "wait for init", create_ready },
};

_Static_assert(ARRAY_SIZE(make_steps) <= MAKING_STEPS_MAX,
	       "create_op.outside is too small");

static int prepared_make(struct native *n, struct native_prepared *part,
			 struct warren_error *err)
{
	struct create_op *m = &part->m;
	int r = create_op_begin(m, n, NULL, err);

	if (r < 0)
		return r;
	m->spec = &any;
	m->limits = (struct cgroup_limits){ .all = true };
	m->disk = STAGED_DISK;
	m->plan->part = true;
	m->plan->inject = n->inject.step - INJECT_INSIDE;
	m->plan->crash = n->inject.crash;
	take_ids(n, m->sandbox);
	r = create_op_run(m, make_steps, ARRAY_SIZE(make_steps), INJECT_MAKE, err);
	r = create_op_hear_child(m, r, err);
	if (r < 0)
		create_op_end(m, r);
	return r;
}

int prepared_prepare(void *state, char ret_id[ID_LEN + 1], struct warren_error *err)
{
	struct native *n = state;
	struct native_prepared *part;
	int r;

	if (!n->privileged || !n->named)
		return error_set(err, EOPNOTSUPP,
				 "only a named engine that root runs prepares "
				 "sandboxes in advance");
	part = calloc(1, sizeof(*part));
	if (!part)
		return error_errno(err, ENOMEM, "allocate a prepared part");
	r = prepared_make(n, part, err);
	if (r < 0) {
		free(part);
		return r;
	}
	(void)strcpy(ret_id, part->m.sandbox->base.id);
	(void)pthread_mutex_lock(&n->lock);
	LIST_APPEND(n->parts, part);
	(void)pthread_mutex_unlock(&n->lock);
	return 0;
}

struct native_prepared *prepared_take(struct native *n, const char *id)
{
	struct native_prepared *part = NULL, **p;

	(void)pthread_mutex_lock(&n->lock);
	LIST_FIND(n->parts, p, !id || strcmp((*p)->m.sandbox->base.id, id) == 0);
	part = *p;
	if (part)
		*p = part->next;
	(void)pthread_mutex_unlock(&n->lock);
	return part;
}

/*
 * Ending a part takes a long time, mostly because of its network namespace, but the
 * kernel ends many parts as fast as one. So kill all of them before waiting for the
 * first.
 */
size_t prepared_drop(void *state, size_t n)
{
	struct native_prepared *going = NULL, **last = &going;
	size_t done = 0;

	for (struct native_prepared *part;
	     done < n && (part = prepared_take(state, NULL)); done++) {
		if (part->m.sandbox->pidfd >= 0)
			(void)pidfd_send_signal(part->m.sandbox->pidfd, SIGKILL, NULL, 0);
		QUEUE_PUT(last, part);
	}
	while (going) {
		struct native_prepared *part = going;

		going = part->next;
		create_op_end(&part->m, -ECANCELED);
		free(part);
	}
	return done;
}

void prepared_end(struct native_prepared *part)
{
	if (part->m.sandbox->pidfd >= 0)
		(void)pidfd_send_signal(part->m.sandbox->pidfd, SIGKILL, NULL, 0);
	create_op_end(&part->m, -ECANCELED);
	free(part);
}

/* --------------------------------------------------------------- completion of a part */

static const char *prepared_put_text(struct native_plan *p, size_t *used, const char *s)
{
	char *to = p->text + *used;
	size_t size = strlen(s) + 1;

	if (size > sizeof(p->text) - *used)
		return NULL;
	*used += size;
	return memcpy(to, s, size);
}

/* Copy what the mounting process must know into memory shared by both processes. */
static int share_spec(struct create_op *m, struct warren_error *err)
{
	struct native_plan *p = m->plan;
	size_t used = 0;
	bool fits;

	p->asked = (struct warren_spec){
		.mounts = p->mounts,
		.n_mounts = m->spec->n_mounts,
		.network = m->spec->network,
		.read_only = m->spec->read_only,
	};
	p->hostname = prepared_put_text(p, &used, m->sandbox->hostname);
	fits = p->hostname != NULL;
	for (size_t i = 0; fits && i < m->spec->n_mounts; i++) {
		const struct warren_mount *from = &m->spec->mounts[i];
		struct warren_mount *to = &p->mounts[i];

		*to = *from;
		to->target = prepared_put_text(p, &used, from->target);
		to->source =
			from->source ? prepared_put_text(p, &used, from->source) : NULL;
		fits = to->target && (to->source || !from->source);
	}
	p->disk = m->disk;
	p->shm = m->shm;
	p->tmpfs = m->tmpfs;
	p->spec = &p->asked;
	return fits ? 0
		    : error_set(err, ENAMETOOLONG,
				"the paths of its mounts are too long");
}

/* The part's cgroup has no limits yet, and contains no process. */
static int prepared_limit(struct create_op *m, struct warren_error *err)
{
	struct cgroup_limits none = { .memory = m->limits.memory ? UINT64_MAX : 0 };

	m->limits.all = true;
	if (!m->sandbox->has_cgroup)
		return 0;
	return cgroup_update(&m->engine->cgroups, m->sandbox->base.id, &none, &m->limits,
			     err);
}

/*
 * The process reports READY or an error; if it just ends, the part died while it waited.
 * -EPIPE: the part is of no use, and the sandbox must be created without it.
 */
static int prepared_await_mounts(struct create_op *m, struct warren_error *err)
{
	struct {
		struct proto_header h;
		struct warren_error err;
	} msg = { 0 };
	size_t n_fds = DIRS_OF_ROOT;
	ssize_t n = fd_recv(m->stage, &msg, sizeof(msg), m->root_dirs, &n_fds, 0);

	/*
	 * If the process ended before it read everything, this error is seen first, and
	 * the process's message comes after it.
	 */
	if (n == -ECONNRESET) {
		n_fds = DIRS_OF_ROOT;
		n = fd_recv(m->stage, &msg, sizeof(msg), m->root_dirs, &n_fds, 0);
	}
	for (size_t i = n < 0 ? 0 : n_fds; i < DIRS_OF_ROOT; i++)
		m->root_dirs[i] = -1;
	if (n <= 0)
		return error_errno(err, n < 0 ? (int)-n : EPIPE, "wait for the mounts");
	if (msg.h.type == PROTO_READY)
		return 0;
	if (n != sizeof(msg) || msg.h.type != PROTO_FAILED || msg.err.code <= 0)
		return error_set(err, EPROTO,
				 "wait for the mounts: the answer is malformed");
	msg.err.msg[sizeof(msg.err.msg) - 1] = '\0';
	/* It failed when it was prepared: that says nothing about this sandbox. */
	if (!m->plan->has_spec)
		return error_set(err, EPIPE, "the preparation failed: %s", msg.err.msg);
	*err = msg.err;
	return -err->code;
}

static int send_layers(struct create_op *m, struct warren_error *err)
{
	int r = create_send_mounts(m, m->stage, err);

	/* The process has already ended; it may have reported the reason. */
	return r == -EPIPE ? prepared_await_mounts(m, err) : r;
}

/*
 * Capture the network while the child mounts the root: the namespace exists already, and
 * nothing runs in it yet. An ordinary user needs init for this, which is not ready.
 */
static int prepared_capture(struct create_op *m, struct warren_error *err)
{
	if (m->spec->network != WARREN_NETWORK_CAPTURED || !m->engine->privileged)
		return 0;
	return capture_open(m->sandbox->pidfd, &m->sandbox->captured, err);
}

/*
 * The root is mounted: tell init to open its descriptors in the root, to hold the
 * image's lock, and to keep the directories of the root.
 */
static int say_rooted(struct create_op *m, struct warren_error *err)
{
	struct proto_config msg = { .h = { .version = PROTO_VERSION,
					   .type = PROTO_CONFIG },
				    .flags = PROTO_CONFIG_ROOTED };
	int fds[1 + DIRS_OF_ROOT], r;

	if (m->sandbox->image_lock >= 0) {
		fds[msg.n] = m->sandbox->image_lock;
		msg.role[msg.n++] = PROTO_ROLE_ALIVE;
	}
	for (unsigned i = 0; i < DIRS_OF_ROOT && m->root_dirs[i] >= 0; i++) {
		fds[msg.n] = m->root_dirs[i];
		msg.role[msg.n++] = (uint8_t)(PROTO_ROLE_UPPER + i);
	}
	r = fd_send(m->sandbox->control, &msg, sizeof(msg), fds, msg.n);
	return r < 0 ? error_errno(err, -r, "configure init") : 0;
}

static const struct create_op_step finish_steps[] = {
	{ "read the spec", take_spec },
	{ "check the limits", take_limits },
	{ "check the disk", take_disk },
	{ "open the saved files", saved_open },
	{ "open the image", take_image },
	{ "find the user", take_user },
	{ "share the spec", share_spec },
	{ "send the layers",
	  send_layers }, /* the child mounts them while this process continues */
	{ "limit the cgroup", prepared_limit },
	{ "report what is enforced", create_describe },
	{ "capture the network", prepared_capture },
	{ "wait for the mounts", prepared_await_mounts },
	{ "configure init", say_rooted },
	{ "record the sandbox", create_note },
	{ "make it durable", create_keep },
};

_Static_assert(ARRAY_SIZE(finish_steps) <= MAKING_STEPS_MAX,
	       "create_op.outside is too small");

static bool is_dead(const struct native_sandbox *sandbox)
{
	struct pollfd p = { .fd = sandbox->pidfd, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

int prepared_finish(struct native_prepared *part, const struct warren_spec *spec,
		    struct backend_sandbox **ret_sandbox, struct warren_error *err)
{
	struct create_op *m = &part->m;
	int r;

	m->spec = spec;
	m->started = clock_now();
	m->n_outside = 0;
	r = create_op_run(m, finish_steps, ARRAY_SIZE(finish_steps), INJECT_FINISH, err);
	if (r == 0)
		*ret_sandbox = &m->sandbox->base;
	else if (is_dead(m->sandbox))
		r = -EPIPE;
	create_op_end(m, r);
	free(part);
	return r;
}
