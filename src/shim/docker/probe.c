/* SPDX-License-Identifier: Apache-2.0 */
/* probe.c - find the features and limits of the daemon */
#include "shim/docker/docker.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void probe_take(const json_t *from, const char *key, char *to, size_t size)
{
	const char *said = json_string_value(json_object_get(from, key));

	docker_clean(to, size, said ? said : "");
}

/* The list is ["name=seccomp,profile=default", "name=userns", ...]. */
static bool has_option(const json_t *list, const char *name)
{
	json_t *one;
	size_t i, n = strlen(name);

	json_array_foreach((json_t *)list, i, one)
	{
		const char *s = json_string_value(one);

		if (s && strncmp(s, "name=", 5) == 0 && strncmp(s + 5, name, n) == 0 &&
		    (s[5 + n] == '\0' || s[5 + n] == ','))
			return true;
	}
	return false;
}

/* The list is [["Backing Filesystem", "extfs"], ...]. */
static void take_backing(const json_t *list, struct docker_info *ret)
{
	json_t *pair;
	size_t i;

	json_array_foreach((json_t *)list, i, pair)
	{
		const char *key = json_string_value(json_array_get(pair, 0));
		const char *value = json_string_value(json_array_get(pair, 1));

		if (key && value && strcmp(key, "Backing Filesystem") == 0)
			docker_clean(ret->backing, sizeof(ret->backing), value);
	}
}

int docker_info(struct docker *d, struct docker_info *ret, struct warren_error *err)
{
	static const char step[] = "identify the daemon";
	int r = docker_ask(d, step, "GET", NULL, err, "/info");
	const json_t *a = d->answer, *options;

	if (r < 0)
		return r;
	*ret = (struct docker_info){ 0 };
	probe_take(a, "ServerVersion", ret->version, sizeof(ret->version));
	probe_take(a, "Driver", ret->driver, sizeof(ret->driver));
	probe_take(a, "DefaultRuntime", ret->runtime, sizeof(ret->runtime));
	probe_take(a, "CgroupDriver", ret->cgroup_driver, sizeof(ret->cgroup_driver));
	probe_take(a, "CgroupVersion", ret->cgroup_version, sizeof(ret->cgroup_version));
	if (!ret->version[0] || !ret->driver[0])
		return docker_odd(d, step, err);
	take_backing(json_object_get(a, "DriverStatus"), ret);
	ret->memory = json_is_true(json_object_get(a, "MemoryLimit"));
	ret->cpu = json_is_true(json_object_get(a, "CpuCfsQuota"));
	ret->pids = json_is_true(json_object_get(a, "PidsLimit"));
	options = json_object_get(a, "SecurityOptions");
	ret->seccomp = has_option(options, "seccomp");
	ret->userns = has_option(options, "userns");
	ret->rootless = has_option(options, "rootless");
	ret->quota = strcmp(ret->driver, "btrfs") == 0 ||
		     strcmp(ret->driver, "zfs") == 0 ||
		     (strncmp(ret->driver, "overlay", 7) == 0 &&
		      strcmp(ret->backing, "xfs") == 0);
	return 0;
}

static const char *if_not(bool ok, const char *text)
{
	return ok ? NULL : text;
}

static size_t list_features(const struct docker_info *info, struct warren_feature *f)
{
	static const char boot[] =
		"boot with the controller enabled (cgroup_enable=memory), or use cgroup v2";
	size_t n = 0;

	f[n++] = (struct warren_feature){
		.name = "limits",
		.ok = info->memory && info->cpu && info->pids,
		.effect = if_not(info->memory && info->cpu && info->pids,
				 "a requested limit that is missing here is refused"),
		.fix = if_not(info->memory && info->cpu && info->pids, boot),
	};
	(void)snprintf(f[n - 1].detail, sizeof(f[0].detail),
		       "memory %s, cpu %s, pids %s; cgroup v%s by %s",
		       info->memory ? "yes" : "no", info->cpu ? "yes" : "no",
		       info->pids ? "yes" : "no", info->cgroup_version,
		       info->cgroup_driver);
	f[n++] = (struct warren_feature){
		.name = "disk",
		.ok = info->quota,
		.effect = if_not(info->quota,
				 "a sandbox can fill the daemon's storage; a requested "
				 "disk limit is refused"),
		.fix = if_not(info->quota, "keep the daemon's data on xfs with pquota"),
	};
	(void)snprintf(f[n - 1].detail, sizeof(f[0].detail), "%s on %s", info->driver,
		       info->backing[0] ? info->backing : "an unnamed filesystem");
	f[n++] = (struct warren_feature){
		.name = "seccomp",
		.ok = info->seccomp,
		.effect = if_not(info->seccomp, "a sandbox can use every system call"),
		.fix = if_not(info->seccomp, "use a daemon that was built with seccomp"),
	};
	(void)snprintf(f[n - 1].detail, sizeof(f[0].detail), "%s",
		       info->seccomp ? "the daemon's default profile" : "none");
	f[n++] = (struct warren_feature){
		.name = "ids",
		.ok = info->userns || info->rootless,
		.effect = if_not(info->userns || info->rootless,
				 "root inside is root on the host, with 11 capabilities"),
		.fix = if_not(info->userns || info->rootless,
			      "start the daemon with userns-remap, or rootless"),
	};
	(void)snprintf(f[n - 1].detail, sizeof(f[0].detail), "%s",
		       info->rootless ? "rootless"
		       : info->userns ? "remapped"
				      : "no user namespace");
	f[n++] = (struct warren_feature){
		.name = "watch",
		.ok = docker_plain(info->runtime),
		.effect = if_not(docker_plain(info->runtime),
				 "file changes are not reported"),
		.fix = if_not(docker_plain(info->runtime),
			      "use a daemon whose default runtime is runc, crun or "
			      "youki"),
	};
	(void)snprintf(f[n - 1].detail, sizeof(f[0].detail), "%s",
		       f[n - 1].ok ? "by the backend" : "not supported");
	return n;
}

/* The error message also contains advice, which has a separate field here. */
static void tell_why(struct warren_feature *f, const struct warren_error *why)
{
	const char *advice = strstr(why->msg, "': ");
	int n = advice ? (int)(advice - why->msg) + 1 : (int)strlen(why->msg);

	f->effect = "it cannot create sandboxes";
	f->fix = why->code == EACCES
			 ? "run as root, or as a member of the group that owns the "
			   "socket (usually 'docker')"
			 : "start it (systemctl start docker), or set 'socket' or "
			   "DOCKER_HOST to its socket";
	(void)snprintf(f->detail, sizeof(f->detail), "%.*s", n, why->msg);
}

/* A missing daemon is also a valid result. */
int docker_probe(const char *name, const json_t *config, struct warren_feature *features,
		 size_t max, struct warren_error *err)
{
	AUTO_DOCKER struct docker d = { 0 };
	struct warren_error why = WARREN_ERROR_INIT;
	struct warren_feature found[8] = { { .name = "daemon", .required = true } };
	struct docker_info info;
	size_t n = 1;
	int r = docker_open(&d, name, config, err);

	if (r < 0)
		return r;
	r = docker_info(&d, &info, &why);
	found[0].ok = r >= 0;
	if (r < 0) {
		tell_why(&found[0], &why);
	} else {
		(void)snprintf(found[0].detail, sizeof(found[0].detail),
			       "%s, %s, at %.80s", info.version, info.runtime, d.socket);
		n += list_features(&info, found + 1);
	}
	if (n > max)
		n = max;
	(void)memcpy(features, found, n * sizeof(found[0]));
	return (int)n;
}
