/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy.c - check requests against the service's configuration
 *
 * The policy is checked twice: by the api, which can answer in terms of the request, and
 * by the warden, which does not trust the api. The source of a mount is checked by name
 * here, and by descriptor in the warden (policy_open_mounts()). A process that may write
 * below a permitted directory could create a link there at any moment, so exactly the
 * checked file must be mounted.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/kind.h"
#include "base/buf.h"
#include "image/ref.h"
#include "os/mount.h"
#include "spec/machine.h"
#include "spec/spec.h"
#include "warden/volume.h"
#include "warden/warden.h"

/* -------------------------------------------------------------------- mounts */

/* Return the length of the path in "/srv/data", "/srv/data:ro" or "/srv/data:rw". */
static size_t rule_length(const char *rule, bool *ret_write)
{
	size_t n = strlen(rule);

	*ret_write = true;
	if (n > 3 &&
	    (strcmp(rule + n - 3, ":ro") == 0 || strcmp(rule + n - 3, ":rw") == 0)) {
		*ret_write = rule[n - 1] == 'w';
		n -= 3;
	}
	while (n > 1 && rule[n - 1] == '/')
		n--;
	return n;
}

/*
 * Does @rule permit @path, compared by whole components? *@ret_n is the length of the
 * rule's part of the path.
 */
static bool policy_permits(const char *rule, const char *path, bool read_only,
			   size_t *ret_n)
{
	bool write;
	size_t n = rule_length(rule, &write);

	if (!write && !read_only)
		return false;
	*ret_n = n;
	if (n == 1 && rule[0] == '/')
		return path[0] == '/';
	return strncmp(path, rule, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

/*
 * Find the outermost rule that permits @m. If a path is below several rules, it is opened
 * from the outermost one: a sandbox that may write there could have replaced a part of
 * the inner rule's path by a link.
 */
static const char *find_rule(const struct warden_policy *p, const struct warren_mount *m,
			     size_t *ret_n)
{
	const char *found = NULL;

	for (const char *const *rule = p->mounts; rule && *rule; rule++) {
		size_t n;

		if (!policy_permits(*rule, m->source, m->read_only, &n) ||
		    (found && n >= *ret_n))
			continue;
		found = *rule;
		*ret_n = n;
	}
	return found;
}

/* Sandboxes of some backends mount the certificates that they trust. */
static bool policy_is_bundle(const struct warden_policy *p, const struct warren_mount *m)
{
	return p->bundle && m->read_only && strcmp(m->source, p->bundle) == 0;
}

/*
 * The api may write to the directory, so a link there could lead anywhere. Only a file
 * that belongs to the api's user, who writes it, is accepted.
 */
int policy_open_bundle(const struct warden_policy *p, int flags, int *ret_fd,
		       struct warren_error *err)
{
	size_t n = strlen(p->bundle) - strlen(WARDEN_BUNDLE);
	AUTO_CLOSE int dir = -1, fd = -1;
	AUTO_FREE char *path = strndup(p->bundle, n);
	struct stat st;

	if (!path)
		return error_errno(err, ENOMEM, "open '%s'", p->bundle);
	dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	fd = dir < 0 ? -errno
		     : mount_openat2(dir, &WARDEN_BUNDLE[1], (uint64_t)flags, 0,
				     RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	if (fd < 0)
		return error_set(err, EIO, "open '%s': %s", p->bundle,
				 strerrordesc_np(-fd));
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != p->uid)
		return error_set(err, EIO, "'%s' does not belong to the service",
				 p->bundle);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int refuse_mount(const struct warren_mount *m, struct warren_error *err)
{
	return error_set(
		err, EPERM,
		"mount '%s'%s: the service's configuration (mounts) does not allow it",
		m->source, m->read_only ? " read-only" : "");
}

/*
 * Open the permitted directory by the administrator's path, and the rest below it without
 * leaving it: not through "..", a link, or a magic link (/proc/self/fd).
 */
static int policy_open_source(const struct warden_policy *p, const struct warren_mount *m,
			      int *ret_fd, struct warren_error *err)
{
	AUTO_CLOSE int dir = -1;
	char prefix[4096];
	const char *rest;
	size_t n = 0;
	int fd;

	if (policy_is_bundle(p, m))
		return policy_open_bundle(p, O_PATH, ret_fd, err);
	if (!find_rule(p, m, &n))
		return refuse_mount(m, err);
	if (n >= sizeof(prefix))
		return error_errno(err, ENAMETOOLONG, "mount '%.64s...'", m->source);
	(void)memcpy(prefix, m->source, n);
	prefix[n] = '\0';
	rest = m->source + n + strspn(m->source + n, "/");
	if (n == 1) /* the rule permits the whole machine */
		fd = mount_openat2(AT_FDCWD, m->source, O_PATH, 0, RESOLVE_NO_MAGICLINKS);
	else
		fd = mount_openat2(AT_FDCWD, prefix, O_PATH, 0, RESOLVE_NO_MAGICLINKS);
	if (fd >= 0 && n > 1 && *rest) {
		dir = fd;
		fd = mount_openat2(dir, rest, O_PATH, 0,
				   RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
	}
	if (fd == -EXDEV || fd == -ELOOP)
		return error_set(
			err, EPERM,
			"mount '%s': a link in the path leads out of '%s', the "
			"directory that the service's configuration (mounts) allows",
			m->source, prefix);
	if (fd < 0)
		return error_errno(err, -fd, "mount '%s'", m->source);
	*ret_fd = fd;
	return 0;
}

int policy_open_mounts(const struct warden_policy *p, struct warren_mount *mounts,
		       size_t n, struct warren_error *err)
{
	for (size_t i = 0; i < n; i++) {
		int r;

		mounts[i].source_fd = 0;
		if (!mounts[i].source)
			continue;
		if (mounts[i].volume)
			r = volume_mount(p->volumes, mounts[i].source,
					 &mounts[i].source_fd, err);
		else
			r = policy_open_source(p, &mounts[i], &mounts[i].source_fd, err);
		if (r < 0) {
			policy_close_mounts(mounts, i);
			return r;
		}
	}
	return 0;
}

void policy_close_mounts(struct warren_mount *mounts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (mounts[i].source_fd > 0)
			(void)close(mounts[i].source_fd), mounts[i].source_fd = 0;
}

/* -------------------------------------------------------------------- limits */

static int refuse_limit(const char *what, uint64_t asked, uint64_t max,
			struct warren_error *err)
{
	if (asked == WARREN_UNLIMITED)
		return error_set(err, EPERM,
				 "%s: the service allows at most %ju, and every "
				 "sandbox needs a limit",
				 what, (uintmax_t)max);
	return error_set(err, EPERM,
			 "%s: %ju is more than the %ju that the service allows", what,
			 (uintmax_t)asked, (uintmax_t)max);
}

/* Every limit must be set, because 0 may mean "no limit" to a backend. */
static int check_limits(const struct warden_policy *p, const struct warren_spec *s,
			struct warren_error *err)
{
	for (size_t i = 0; i < SPEC_LIMIT_MAX; i++) {
		uint64_t asked = spec_limit_get(s, i);

		if (asked == 0)
			return error_set(err, EINVAL,
					 "%s: a sandbox of the service needs a "
					 "limit, and none is given",
					 spec_limits[i].word);
		if (p->max[i] && asked > p->max[i])
			return refuse_limit(spec_limits[i].word, asked, p->max[i], err);
	}
	return 0;
}

/* Does the backend use this machine? Other backends may use another one. */
static bool policy_is_here(const struct warden_backend *b)
{
	const struct backend_kind *kind =
		b ? backend_kind_find(b->kind) : &backend_kind_native;

	return kind && kind->here;
}

int policy_check_update(const struct warden_policy *p, const struct warden_backend *b,
			const struct warren_limits *l, struct warren_error *err)
{
	for (size_t i = 0; i < SPEC_LIVE_MAX; i++)
		if (p->max[i] && spec_live_get(l, i) > p->max[i])
			return refuse_limit(spec_limits[i].word, spec_live_get(l, i),
					    p->max[i], err);
	return policy_is_here(b) ? machine_check_memory(l->memory, err) : 0;
}

int policy_check_backend(const struct warden_policy *p, const struct warden_backend *b,
			 uint64_t memory, struct warren_error *err)
{
	enum tier tier = b ? b->tier : p->native_tier;

	if (tier < p->min_tier)
		return error_set(err, EPERM,
				 "backend '%s' is of tier %s, but the service's "
				 "configuration (min_tier) requires %s",
				 b ? b->name : backend_kind_native.name, tier_names[tier],
				 tier_names[p->min_tier]);
	return policy_is_here(b) ? machine_check_memory(memory, err) : 0;
}

/* -------------------------------------------------------------------- images */

int policy_check_ref(const char *ref, struct warren_error *err)
{
	struct ref parsed;

	return ref_parse(ref, &parsed, err);
}

static bool policy_lists(const char *const *list, const char *registry)
{
	for (; list && *list; list++)
		if (strcasecmp(*list, registry) == 0)
			return true;
	return false;
}

bool policy_may_pull(const struct warden_policy *p, const char *image)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct ref ref;

	return ref_parse(image, &ref, &ignored) == 0 &&
	       (strcmp(ref.registry, "docker.io") == 0 ||
		policy_lists(p->trusted_registries, ref.registry) ||
		policy_lists(p->insecure_registries, ref.registry));
}

static int policy_check_image(const struct warden_policy *p, const char *image,
			      struct warren_error *err)
{
	if (strcmp(image, "host") == 0)
		return p->host_image
			       ? 0
			       : error_set(
					 err, EPERM,
					 "image 'host' shows this machine's own programs, "
					 "which the service's configuration (host_image) does "
					 "not allow");
	if (strncmp(image, "dir:", 4) == 0)
		return p->dir_image
			       ? 0
			       : error_set(
					 err, EPERM,
					 "image '%s': clients of the service cannot use a "
					 "directory of this machine as an image; import it "
					 "first",
					 image);
	return policy_check_ref(image, err);
}

int policy_check(const struct warden_policy *p, const struct warren_spec *spec,
		 struct warren_error *err)
{
	int r = policy_check_image(p, spec->image ? spec->image : "host", err);

	if (r == 0)
		r = check_limits(p, spec, err);
	for (size_t i = 0; r == 0 && i < spec->n_mounts; i++) {
		const struct warren_mount *m = &spec->mounts[i];
		size_t n = 0;

		if (m->source && !m->volume && !policy_is_bundle(p, m) &&
		    !find_rule(p, m, &n))
			r = refuse_mount(m, err);
	}
	return r;
}
