/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plan.c - read the spec and the image into a plan
 *
 * `host` is the image of most sandboxes. It stays open between creates and is checked
 * again after a second. If a newer one replaces it, creates that already use the older
 * one keep it until they have finished.
 */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include "backend/native/create_op.h"
#include "backend/native/persist.h"
#include "base/clock.h"
#include "base/strv.h"
#include "spec/limits.h"

#define PIDS_DEFAULT   1024
#define NOFILE_DEFAULT 65536
#define DISK_MIN       (1U << 20)
#define MEMORY_MIN     (1U << 20)
#define TMPFS_DEFAULT  (64U << 20)
#define TMPFS_MIN      (64U << 10)
#define HOST_FRESH     1000000000 /* ns */

/*
 * For an ordinary user: the user's own ids, and those that both /etc/subuid and
 * /etc/subgid grant.
 */
void take_ids(const struct native *n, struct native_sandbox *sandbox)
{
	uint32_t sub =
		n->subuid.count < n->subgid.count ? n->subuid.count : n->subgid.count;

	sandbox->n_ids = n->privileged || sub >= NATIVE_IDS ? NATIVE_IDS : 1 + sub;
	sandbox->groups = n->privileged || n->subuid.count > 0;
}

/*
 * A soft limit is dropped if an ordinary user has no right to enforce it. If root cannot
 * enforce it, the machine lacks a feature, and the create fails, so that the client is
 * informed.
 */
static bool plan_insists(const struct create_op *m, uint64_t value, uint32_t limit)
{
	return value && (m->engine->privileged || !(m->spec->soft_limits & limit));
}

/*
 * Data in a file is charged to the process that writes it, which may be the service
 * acting for a client. So all filesystems in memory together must fit into the memory
 * limit: the root, if it is one, /dev/shm, and each requested tmpfs. Default sizes shrink
 * to make space for requested ones.
 */
static int take_tmpfs(struct create_op *m, struct warren_error *err)
{
	const struct warren_spec *s = m->spec;
	uint64_t memory = m->limits.memory, sum = 0, left, unsized = 0;

	for (size_t i = 0; i < s->n_mounts; i++) {
		const struct warren_mount *t = &s->mounts[i];

		if (t->source)
			continue;
		unsized += t->size == 0;
		if (t->size > memory - sum)
			return error_set(
				err, EINVAL,
				"tmpfs '%.64s': the sizes of all tmpfs together must "
				"be below the memory limit (%ju bytes)",
				t->target, (uintmax_t)memory);
		sum += t->size;
	}
	if (!s->disk && !s->persist && m->disk > (memory - sum) / (unsized ? 2 : 1))
		m->disk = (memory - sum) / (unsized ? 2 : 1);
	left = memory - sum;
	if (!m->plan->on_disk) {
		if (m->disk > left || m->disk < DISK_MIN)
			return error_set(
				err, EINVAL,
				"tmpfs: besides the root's %ju bytes, at most %ju fit "
				"into the memory limit; raise the limit, or ask for "
				"less",
				(uintmax_t)(m->disk < DISK_MIN ? DISK_MIN : m->disk),
				(uintmax_t)(memory -
					    (m->disk < DISK_MIN ? DISK_MIN : m->disk)));
		left -= m->disk;
	}
	unsized += m->plan->on_disk; /* /dev/shm */
	/* Use at most half of the memory limit, so that the limit can later be lowered by
	 * the other half. */
	m->tmpfs = memory / 2 < TMPFS_DEFAULT ? memory / 2 : TMPFS_DEFAULT;
	if (unsized && left / unsized < m->tmpfs)
		m->tmpfs = left / unsized;
	m->shm = m->plan->on_disk ? m->tmpfs : 0;
	if (unsized && m->tmpfs < TMPFS_MIN)
		return error_set(
			err, EINVAL,
			"tmpfs: the memory limit (%ju bytes) leaves no space for a "
			"tmpfs without a size; raise the limit, or ask for less disk",
			(uintmax_t)memory);
	m->sandbox->tmpfs = sum + unsized * m->tmpfs + (m->plan->on_disk ? 0 : m->disk);
	return 0;
}

/* A sandbox may use at most half of the process ids, so that the rest is left for
 * others. */
static uint64_t most_pids(const struct native *n)
{
	return n->cgroups.pids ? n->cgroups.pids / 2 : UINT64_MAX;
}

int take_pids(const struct native *n, uint64_t pids, struct warren_error *err)
{
	if (pids <= most_pids(n))
		return 0;
	return error_set(
		err, EINVAL,
		"pids: a sandbox may have at most %ju on this machine, half of what "
		"all sandboxes together may have (%ju, from kernel.pid_max)",
		(uintmax_t)most_pids(n), (uintmax_t)n->cgroups.pids);
}

static int take_nofile(struct create_op *m, struct warren_error *err)
{
	const struct warren_spec *s = m->spec;
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) < 0)
		return error_errno(err, errno, "getrlimit");
	if (s->nofile > lim.rlim_max)
		return error_set(
			err, EPERM,
			"nofile: %ju is more than the %ju that this process may allow",
			(uintmax_t)s->nofile, (uintmax_t)lim.rlim_max);
	m->sandbox->nofile = s->nofile                       ? s->nofile
			     : lim.rlim_max < NOFILE_DEFAULT ? lim.rlim_max
							     : NOFILE_DEFAULT;
	return 0;
}

int take_spec(struct create_op *m, struct warren_error *err)
{
	const struct warren_spec *s = m->spec;
	struct native *n = m->engine;
	struct native_sandbox *sandbox = m->sandbox;

	m->limits = (struct cgroup_limits){
		.memory = s->memory ? s->memory : n->memory_default,
		.cpu_millis = s->cpu_millis,
		.pids = s->pids                       ? s->pids
			: most_pids(n) < PIDS_DEFAULT ? most_pids(n)
						      : PIDS_DEFAULT,
		.only_limits = s->one_shot,
		.all = s->durable,
	};
	m->disk = s->disk      ? s->disk
		  : s->persist ? SPEC_PERSIST_DISK
			       : m->limits.memory / 2;
	if (!s->disk && m->disk < DISK_MIN)
		m->disk = DISK_MIN;
	if (m->disk > m->limits.memory && !plan_insists(m, s->disk, WARREN_LIMIT_DISK) &&
	    !n->privileged)
		m->disk = m->limits.memory / 2;
	if (m->limits.memory < MEMORY_MIN)
		return error_set(err, EINVAL, "memory: below 1m no process can run");
	if (m->disk < DISK_MIN)
		return error_set(
			err, EINVAL,
			"disk: less than 1m leaves no space for a root filesystem");
	m->plan->on_disk = n->privileged &&
			   (s->persist || m->disk > m->limits.memory || !n->tmpfs_xattrs);
	if (m->disk > m->limits.memory && !m->plan->on_disk)
		return error_set(
			err, EOPNOTSUPP,
			"disk: without root, written data stays in memory, so the "
			"disk limit cannot be above the memory limit (%ju bytes)",
			(uintmax_t)m->limits.memory);
	if (persist_check(m, err) < 0 || volume_check(n, s, err) < 0 ||
	    take_tmpfs(m, err) < 0 || take_pids(n, m->limits.pids, err) < 0 ||
	    take_nofile(m, err) < 0)
		return -err->code;
	take_ids(n, sandbox);
	sandbox->env = strv_copy(s->env);
	sandbox->workdir = strdup(s->workdir ? s->workdir : "/");
	sandbox->hostname = strdup(s->hostname ? s->hostname : sandbox->base.id);
	if (!sandbox->env || !sandbox->workdir || !sandbox->hostname)
		return error_errno(err, ENOMEM, "read the spec");
	return 0;
}

/* A requested limit that cannot be enforced is refused; a default is dropped. */
int take_limits(struct create_op *m, struct warren_error *err)
{
	const struct {
		enum cgroup_controller controller;
		bool asked;
		const char *what;
		uint64_t *limit;
	} wants[] = {
		{ CGROUP_MEMORY, plan_insists(m, m->spec->memory, WARREN_LIMIT_MEMORY),
		  "memory", &m->limits.memory },
		{ CGROUP_CPU, plan_insists(m, m->spec->cpu_millis, WARREN_LIMIT_CPU),
		  "cpus", &m->limits.cpu_millis },
		{ CGROUP_PIDS, plan_insists(m, m->spec->pids, WARREN_LIMIT_PIDS), "pids",
		  &m->limits.pids },
	};

	for (size_t i = 0; i < ARRAY_SIZE(wants); i++) {
		if (cgroup_has(&m->engine->cgroups, wants[i].controller))
			continue;
		if (wants[i].asked)
			return error_set(
				err, EOPNOTSUPP,
				"%s: a limit cannot be enforced here: %s; see 'warren doctor'",
				wants[i].what,
				m->engine->cgroups.why[0] ? m->engine->cgroups.why
							  : "the controller is missing");
		*wants[i].limit = 0;
	}
	return 0;
}

/*
 * If the spec requests a disk, all of its space must be available; a default is only a
 * maximum.
 */
int take_disk(struct create_op *m, struct warren_error *err)
{
	const char *dir = m->engine->state_dir;
	struct statvfs fs;
	uint64_t left;

	if (!m->plan->on_disk || !m->spec->disk || statvfs(dir, &fs) < 0)
		return 0;
	/* It has its disk already. */
	if (m->spec->persist && m->spec->restore)
		return 0;
	left = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (left < m->disk)
		return error_set(err, ENOSPC,
				 "'%s' has %ju bytes free, and the disk needs %ju", dir,
				 (uintmax_t)left, (uintmax_t)m->disk);
	return 0;
}

/* Put the image's variables before the spec's, because the last one of a name counts. */
static int prepend_env(struct native_sandbox *sandbox, char **first)
{
	size_t a = 0, b = 0;
	char **both;

	while (first[a])
		a++;
	while (sandbox->env[b])
		b++;
	both = calloc(a + b + 1, sizeof(*both));
	if (!both)
		return -ENOMEM;
	for (size_t i = 0; i < a; i++)
		both[i] = TAKE_PTR(first[i]);
	(void)memcpy(both + a, sandbox->env, b * sizeof(*both));
	free(sandbox->env);
	sandbox->env = both;
	return 0;
}

/* Apply the image's configuration where the spec sets nothing. */
static int take_config(struct create_op *m, struct warren_error *err)
{
	struct image *image = &m->plan->image;
	struct store_image *c = &image->config;
	struct native_sandbox *sandbox = m->sandbox;
	size_t len = 0;

	if (!image->has_config)
		return 0;
	for (char **v = c->volumes; *v; v++) {
		if ((*v)[0] != '/')
			return error_set(
				err, EINVAL,
				"the image declares a volume '%s', which is not an "
				"absolute path",
				*v);
		if (len + strlen(*v) + 2 > sizeof(m->plan->volumes))
			return error_set(
				err, EINVAL,
				"the image declares too many volumes ('%s' does not fit)",
				*v);
		(void)strcpy(m->plan->volumes + len, *v);
		len += strlen(*v) + 1;
	}
	if (!m->spec->workdir && c->workdir[0] == '/') {
		free(sandbox->workdir);
		sandbox->workdir = TAKE_PTR(c->workdir);
	}
	sandbox->base.entrypoint = TAKE_PTR(c->entrypoint);
	sandbox->base.cmd = TAKE_PTR(c->cmd);
	sandbox->image_lock = TAKE_FD(c->lock);
	return prepend_env(sandbox, c->env) < 0
		       ? error_errno(err, ENOMEM, "copy the image's environment")
		       : 0;
}

static void host_put(struct native_host *host)
{
	if (!host || __atomic_sub_fetch(&host->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	image_close(&host->image);
	free(host);
}

static int host_open(struct native *n, struct native_host **ret, struct warren_error *err)
{
	struct native_host *host = calloc(1, sizeof(*host));
	int r;

	if (!host)
		return error_errno(err, ENOMEM, "open the image");
	host->refs = 2; /* one for the engine, one for the caller */
	host->checked = clock_now();
	r = image_open("host", n->state_dir, &host->image, err);
	if (r < 0) {
		free(host);
		return r;
	}
	*ret = host;
	return 0;
}

/*
 * Take an image that was checked recently; the caller must release it. Several threads
 * may call this at the same time.
 */
static int host_take(struct native *n, struct native_host **ret, struct warren_error *err)
{
	struct native_host *old = NULL;
	int r = 0;

	(void)pthread_mutex_lock(&n->lock);
	if (n->host && clock_now() - n->host->checked <= HOST_FRESH) {
		(void)__atomic_add_fetch(&n->host->refs, 1, __ATOMIC_RELAXED);
		*ret = n->host;
	} else {
		r = host_open(n, ret, err);
		if (r == 0) {
			old = n->host;
			n->host = *ret;
		}
	}
	(void)pthread_mutex_unlock(&n->lock);
	host_put(old);
	return r;
}

void take_forget_host(struct native *n)
{
	host_put(TAKE_PTR(n->host));
}

/* The reference may name another image later, so the sandbox keeps the image's id. */
static int take_image_of(struct create_op *m, const char *ref, struct warren_error *err)
{
	const struct image *image = &m->plan->image;
	int r = image_open(ref, m->engine->state_dir, &m->plan->image, err);

	m->own_image = r == 0;
	if (r < 0)
		return r;
	m->sandbox->image = strdup(image->has_config ? image->config.id : ref);
	if (!m->sandbox->image)
		return error_errno(err, ENOMEM, "open the image");
	return take_config(m, err);
}

int take_image(struct create_op *m, struct warren_error *err)
{
	AUTO_FREE char *saved = NULL;
	const char *ref = m->spec->image ? m->spec->image : "host";
	struct native *n = m->engine;
	int r;

	if (m->spec->restore) {
		r = saved_image(n, m->sandbox->base.id, &saved, err);
		if (r < 0)
			return r;
		ref = saved;
	}
	if (strcmp(ref, "host") != 0)
		return take_image_of(m, ref, err);
	r = host_take(n, &m->host, err);
	if (r == 0)
		m->plan->image = m->host->image;
	return r;
}

void take_done(struct create_op *m)
{
	if (m->own_image) {
		/* Work on a copy: the child may still be reading the plan. */
		struct image own = m->plan->image;

		image_close(&own);
	}
	m->own_image = false;
	host_put(TAKE_PTR(m->host));
}

static int plan_open_in_image(void *ctx, const char *path)
{
	return image_open_file(ctx, path);
}

int take_user(struct create_op *m, struct warren_error *err)
{
	struct native_sandbox *sandbox = m->sandbox;
	const struct image *image = &m->plan->image;
	const char *user = m->spec->user;
	int r;

	if (!user && image->has_config && image->config.user[0])
		user = image->config.user;
	r = user_resolve(user, plan_open_in_image, &m->plan->image, &sandbox->user, err);

	if (r < 0)
		return r;
	if (!m->engine->privileged && m->engine->subuid.count == 0 &&
	    sandbox->user.uid != 0)
		return error_set(
			err, EOPNOTSUPP,
			"user '%s': without root, and without a range in /etc/subuid "
			"and /etc/subgid, a sandbox has only the user root; see "
			"'warren doctor'",
			user);
	if (!idmap_has(m->engine, sandbox, sandbox->user.uid, sandbox->user.gid))
		return error_set(err, EINVAL,
				 "user '%s' (%u:%u) cannot exist in a sandbox: ids "
				 "must be below %u",
				 user, sandbox->user.uid, sandbox->user.gid, NATIVE_IDS);
	return 0;
}

bool native_forbids_set_id(const struct warren_spec *spec)
{
	for (size_t i = 0; i < spec->n_mounts; i++) {
		const struct warren_mount *m = &spec->mounts[i];

		if (m->source && !m->volume && !m->writes && !m->read_only &&
		    !m->allow_set_id)
			return true;
	}
	return false;
}
