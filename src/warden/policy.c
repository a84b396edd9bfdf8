/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy.c - what of this machine a sandbox may have
 *
 * Asked twice: by the api, which can answer in words of the request, and by
 * the warden, which does not trust the api. A prefix is compared by whole parts
 * of the path after links are resolved, since who may write below a permitted
 * directory may put a link there.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/buf.h"
#include "image/ref.h"
#include "warden/warden.h"

/* Does "/srv/data" (or "/srv/data:ro") permit @path? */
static bool permits(const char *rule, const char *path, bool read_only)
{
	size_t n = strlen(rule);

	if (n > 3 && strcmp(rule + n - 3, ":ro") == 0) {
		if (!read_only)
			return false;
		n -= 3;
	}
	while (n > 1 && rule[n - 1] == '/')
		n--;
	if (n == 1 && rule[0] == '/')
		return true;
	return strncmp(path, rule, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static int check_source(const struct warden_policy *p, const struct warren_mount *m,
			struct warren_error *err)
{
	char real[PATH_MAX];

	for (const char *const *rule = p->mounts; rule && *rule; rule++) {
		if (!permits(*rule, m->source, m->read_only))
			continue;
		if (!realpath(m->source, real))
			return error_errno(err, errno, "mount '%s'", m->source);
		if (permits(*rule, real, m->read_only))
			return 0;
	}
	return error_set(
		err, EPERM,
		"mount '%s'%s: the service's configuration (mounts) does not allow it",
		m->source, m->read_only ? " read-only" : "");
}

static bool lists(const char *const *list, const char *registry)
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
		lists(p->trusted_registries, ref.registry) ||
		lists(p->insecure_registries, ref.registry));
}

int policy_check(const struct warden_policy *p, const struct warren_spec *spec,
		 struct warren_error *err)
{
	const char *image = spec->image ? spec->image : "host";

	if (strcmp(image, "host") == 0 && !p->host_image)
		return error_set(
			err, EPERM,
			"image 'host' shows this machine's own programs, and the "
			"service's configuration (host_image) does not allow it");
	if (strncmp(image, "dir:", 4) == 0 && !p->dir_image)
		return error_set(
			err, EPERM,
			"image '%s': a directory of this machine is no image for "
			"who asks over the network; import it first",
			image);
	for (size_t i = 0; i < spec->n_mounts; i++) {
		int r = spec->mounts[i].source ? check_source(p, &spec->mounts[i], err)
					       : 0;

		if (r < 0)
			return r;
	}
	return 0;
}
