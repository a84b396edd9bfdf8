/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec.c - translate a spec for the Engine API, and record what is enforced
 *
 * If the daemon reports that it cannot set a limit, the request is refused with the name
 * of its field. If it is only a soft limit, it is omitted and reported as not enforced.
 * (The daemon itself would drop it with a warning.)
 */
#include "spec/spec.h"
#include "shim/docker/docker.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "os/caps.h"
#include "os/loopdev.h"

#define PIDS_DEFAULT  1024U
#define NOFILE_MOST   65536U
#define TMPFS_DEFAULT (64U << 20)
#define PODMAN_NPROC  32768U
#define PERIOD_USEC   100000U
#define QUOTA_LEAST   1000U /* minimum of the kernel, in microseconds */

/* ------------------------------------------------------------------------ limits */

/* Write the limit as a share of a period; a small share needs a longer period. */
static bool spec_put_cpu(json_t *to, uint64_t millis)
{
	uint64_t period = PERIOD_USEC;
	json_int_t quota;

	if (millis * period / 1000 < QUOTA_LEAST)
		period *= 10;
	quota = millis == WARREN_UNLIMITED ? -1 : (json_int_t)(millis * period / 1000);
	return json_object_set_new(to, "CpuPeriod", json_integer((json_int_t)period)) ==
		       0 &&
	       json_object_set_new(to, "CpuQuota", json_integer(quota)) == 0;
}

bool docker_put_limits(json_t *to, const struct warren_limits *l)
{
	if (l->memory &&
	    (json_object_set_new(to, "Memory", json_integer((json_int_t)l->memory)) < 0 ||
	     /* This is the sum of memory and swap, so there is no swap. */
	     json_object_set_new(to, "MemorySwap", json_integer((json_int_t)l->memory)) <
		     0))
		return false;
	if (l->cpu_millis && !spec_put_cpu(to, l->cpu_millis))
		return false;
	return !l->pids || json_object_set_new(to, "PidsLimit",
					       json_integer((json_int_t)l->pids)) == 0;
}

static uint64_t memory_default(void)
{
	struct sysinfo info;

	return sysinfo(&info) == 0 ? (uint64_t)info.totalram * info.mem_unit / 2 : 0;
}

static int spec_refuse(const struct shim_sandbox *p, const char *field, const char *why,
		       struct warren_error *err)
{
	return error_set(err, EOPNOTSUPP, "%s: %s: %s", p->name, field, why);
}

int docker_limits(struct shim_sandbox *p, const struct docker_info *info,
		  const struct warren_spec *spec, struct warren_limits *ret,
		  struct warren_error *err)
{
	static const char no_cgroup[] = "the daemon has no cgroup to limit it with";
	const struct {
		const char *name;
		uint32_t limit;
		uint64_t asked, value;
		bool able;
		uint64_t *to;
	} limits[] = {
		{ "memory", WARREN_LIMIT_MEMORY, spec->memory,
		  spec->memory ? spec->memory : memory_default(), info->memory,
		  &ret->memory },
		{ "cpus", WARREN_LIMIT_CPU, spec->cpu_millis, spec->cpu_millis, info->cpu,
		  &ret->cpu_millis },
		{ "pids", WARREN_LIMIT_PIDS, spec->pids,
		  spec->pids ? spec->pids : PIDS_DEFAULT, info->pids, &ret->pids },
	};

	*ret = (struct warren_limits){ 0 };
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		if (limits[i].asked && !limits[i].able &&
		    !(spec->soft_limits & limits[i].limit))
			return spec_refuse(p, limits[i].name, no_cgroup, err);
		if (limits[i].able)
			*limits[i].to = limits[i].value;
		else
			shim_sandbox_enforce(p, limits[i].name, false, "%s", no_cgroup);
	}
	if (spec->disk && !spec->read_only && !info->quota &&
	    !(spec->soft_limits & WARREN_LIMIT_DISK))
		return spec_refuse(
			p, "disk",
			"the daemon's storage enforces no limit (overlay2 on xfs with "
			"pquota would); use read_only, or no limit",
			err);
	return 0;
}

static bool is_same_path(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b);

	while (n > 1 && a[n - 1] == '/')
		n--;
	while (m > 1 && b[m - 1] == '/')
		m--;
	return n == m && memcmp(a, b, n) == 0;
}

int docker_check_ids(const struct shim_sandbox *p, const struct docker_info *info,
		     const struct warren_spec *spec, struct warren_error *err)
{
	if (!info->userns && !info->rootless)
		return 0;
	for (size_t i = 0; i < spec->n_mounts; i++)
		if (spec->mounts[i].volume)
			return error_set(
				err, EOPNOTSUPP,
				"%s: volume at '%s': the daemon %s, so the owners of files "
				"would be wrong in other sandboxes",
				p->name, spec->mounts[i].target,
				info->rootless ? "runs as an ordinary user"
					       : "maps user ids (userns-remap)");
	return 0;
}

/* Is something else mounted at this path? Then the daemon creates no volume there. */
static bool is_covered(const struct warren_spec *spec, const char *target)
{
	for (size_t i = 0; i < spec->n_mounts; i++)
		if (is_same_path(spec->mounts[i].target, target))
			return true;
	return false;
}

const char *docker_volume(const struct warren_spec *spec, const json_t *volumes)
{
	const char *target;
	json_t *ignored;

	json_object_foreach((json_t *)volumes, target, ignored)
	{
		if (!is_covered(spec, target))
			return target;
	}
	return NULL;
}

/*
 * The daemon keeps a VOLUME of an image outside of the container's storage, so neither
 * its limit nor a read-only root applies. A volume can be made read-only, but cannot have
 * a limit.
 */
int docker_check_volumes(const struct shim_sandbox *p, const struct warren_spec *spec,
			 const json_t *volumes, struct warren_error *err)
{
	const char *volume = docker_volume(spec, volumes);

	if (!volume || !spec->disk || spec->read_only ||
	    spec->soft_limits & WARREN_LIMIT_DISK)
		return 0;
	return error_set(
		err, EOPNOTSUPP,
		"%s: disk: the image declares the volume '%.200s', which the daemon "
		"stores without a limit: mount a tmpfs there, or use read_only or no "
		"limit",
		p->name, volume);
}

static uint64_t spec_nofile(const struct warren_spec *spec)
{
	struct rlimit l;

	if (spec->nofile)
		return spec->nofile;
	if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_max > NOFILE_MOST)
		return NOFILE_MOST;
	return l.rlim_max;
}

void docker_note(struct shim_sandbox *p, const struct docker_info *info,
		 const struct warren_spec *spec, const struct warren_limits *limits)
{
	shim_sandbox_enforce(p, "namespaces", true, "mount, pid, net, ipc, uts, cgroup%s",
			     info->userns || info->rootless ? ", user" : "");
	shim_sandbox_enforce(
		p, "ids", info->userns || info->rootless, "%s",
		info->rootless ? "the daemon runs as an ordinary user"
		: info->userns ? "root inside is an unprivileged user on the host"
			       : "root inside is root on the host, with 11 capabilities");
	shim_sandbox_enforce(p, "capabilities", true,
			     "11 for root inside, none for others");
	shim_sandbox_enforce(p, "seccomp", info->seccomp, "%s",
			     info->seccomp ? "the daemon's default profile"
					   : "the daemon has none");
	shim_sandbox_enforce(p, "no_new_privs", true, "set");
	shim_sandbox_enforce(p, "network", true, "%s", spec_network_text(spec->network));
	shim_sandbox_enforce(p, "nofile", true, "%ju for each process",
			     (uintmax_t)spec_nofile(spec));
	if (spec->read_only)
		shim_sandbox_enforce(p, "read_only", true, "the root");
	if (limits->memory)
		shim_sandbox_enforce(p, "memory", true, "%ju bytes by cgroup v%s",
				     (uintmax_t)limits->memory, info->cgroup_version);
	if (limits->cpu_millis)
		shim_sandbox_enforce(p, "cpus", true, "%ju.%03u by cgroup v%s",
				     (uintmax_t)limits->cpu_millis / 1000,
				     (unsigned)(limits->cpu_millis % 1000),
				     info->cgroup_version);
	if (limits->pids)
		shim_sandbox_enforce(p, "pids", true, "%ju by cgroup v%s",
				     (uintmax_t)limits->pids, info->cgroup_version);
}

/* ------------------------------------------------------- description of the container */

/* Return the names that caps_kept has in the API. */
static json_t *kept_caps(void)
{
	static const struct {
		int cap;
		const char *name;
	} names[] = {
		{ CAP_CHOWN, "CHOWN" },
		{ CAP_DAC_OVERRIDE, "DAC_OVERRIDE" },
		{ CAP_FOWNER, "FOWNER" },
		{ CAP_FSETID, "FSETID" },
		{ CAP_KILL, "KILL" },
		{ CAP_NET_BIND_SERVICE, "NET_BIND_SERVICE" },
		{ CAP_SETFCAP, "SETFCAP" },
		{ CAP_SETGID, "SETGID" },
		{ CAP_SETPCAP, "SETPCAP" },
		{ CAP_SETUID, "SETUID" },
		{ CAP_SYS_CHROOT, "SYS_CHROOT" },
	};
	json_t *list = json_array();

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (caps_kept >> names[i].cap & 1)
			(void)json_array_append_new(list, json_string(names[i].name));
	return list;
}

/*
 * The daemon mounts the device of the volume itself, because a mount of this process may
 * be in a namespace that the daemon does not see. The filesystem is the one that
 * @m->source_fd refers to, which keeps the device until the container has it, too
 * (docker_check_mounts()). The daemon must not copy files of the image to it.
 *
 * The device may have another number when the container starts again, for example after a
 * restart of the machine. So the daemon gets a link to it.
 */
static json_t *spec_volume(const struct shim_sandbox *p, const struct warren_mount *m,
			   unsigned n)
{
	char name[DOCKER_VOLUME_MAX], device[DOCKER_GUEST_MAX];

	docker_volume_name(p, n, name);
	docker_volume_link(p, n, device);
	return json_pack("{s:s, s:s, s:s, s:b, s:{s:b, s:{s:s, s:{s:s, s:s, s:s}}}}",
			 "Type", "volume", "Source", name, "Target", m->target,
			 "ReadOnly", m->read_only, "VolumeOptions", "NoCopy", 1,
			 "DriverConfig", "Name", "local", "Options", "type", "ext4",
			 "device", device, "o", "nosuid,nodev");
}

void docker_volume_link(const struct shim_sandbox *p, unsigned n,
			char path[DOCKER_GUEST_MAX])
{
	(void)snprintf(path, DOCKER_GUEST_MAX, "%s/v%u", p->dir, n);
}

int docker_link_volumes(const struct shim_sandbox *p, const struct warren_spec *spec,
			struct warren_error *err)
{
	unsigned n = 0;

	for (size_t i = 0; i < spec->n_mounts; i++) {
		char path[DOCKER_GUEST_MAX], device[LOOP_PATH_MAX];
		struct stat st;
		int r;

		if (!spec->mounts[i].volume)
			continue;
		docker_volume_link(p, n++, path);
		(void)unlink(path);
		r = fstat(spec->mounts[i].source_fd, &st) < 0
			    ? -errno
			    : loopdev_path(st.st_dev, device);
		if (r >= 0 && symlink(device, path) < 0)
			r = -errno;
		if (r < 0)
			return error_errno(err, -r, "%s: volume at '%s'", p->name,
					   spec->mounts[i].target);
	}
	return 0;
}

static json_t *one_mount(const struct warren_mount *m)
{
	if (m->source)
		return json_pack("{s:s, s:s, s:s, s:b, s:{s:s}}", "Type", "bind",
				 "Source", m->source, "Target", m->target, "ReadOnly",
				 m->read_only, "BindOptions", "Propagation", "rprivate");
	return json_pack("{s:s, s:s, s:b, s:{s:I, s:i}}", "Type", "tmpfs", "Target",
			 m->target, "ReadOnly", m->read_only, "TmpfsOptions", "SizeBytes",
			 (json_int_t)(m->size ? m->size : TMPFS_DEFAULT), "Mode", 01777);
}

/*
 * The daemon copies the image's files into the volume when it creates it. The volume has
 * a name, because volumes without one cannot be read-only; docker_remove() removes it.
 */
static int add_volumes(json_t *list, const struct shim_sandbox *p,
		       const struct warren_spec *spec, const json_t *volumes, unsigned n)
{
	char name[DOCKER_VOLUME_MAX];
	const char *target;
	json_t *ignored;
	int r = 0;

	json_object_foreach((json_t *)volumes, target, ignored)
	{
		if (r < 0 || is_covered(spec, target))
			continue;
		docker_volume_name(p, n++, name);
		r = json_array_append_new(
			list, json_pack("{s:s, s:s, s:s, s:b}", "Type", "volume",
					"Source", name, "Target", target, "ReadOnly", 1));
	}
	return r;
}

static json_t *all_mounts(const struct shim_sandbox *p, const struct warren_spec *spec,
			  const json_t *volumes, bool with_socket)
{
	char guest[DOCKER_GUEST_MAX], socket[DOCKER_GUEST_MAX];
	const struct warren_mount own[] = {
		{ .source = guest, .target = DOCKER_GUEST, .read_only = true },
		{ .source = socket, .target = DOCKER_GUEST_SOCKET, .read_only = true },
	};
	json_t *list = json_array();
	unsigned n = 0;
	int r = 0;

	docker_guest(p, guest);
	docker_guest_socket_path(p, socket);
	for (size_t i = 0; r == 0 && i < (with_socket ? 2 : 1); i++)
		r = json_array_append_new(list, one_mount(&own[i]));
	for (size_t i = 0; r == 0 && i < spec->n_mounts; i++)
		r = json_array_append_new(list,
					  spec->mounts[i].volume
						  ? spec_volume(p, &spec->mounts[i], n++)
						  : one_mount(&spec->mounts[i]));
	if (r == 0 && spec->read_only)
		r = add_volumes(list, p, spec, volumes, n);
	if (r == 0)
		return list;
	json_decref(list);
	return NULL;
}

static int add_rlimit(json_t *list, const char *name, uint64_t n)
{
	return json_array_append_new(list,
				     json_pack("{s:s, s:I, s:I}", "Name", name, "Soft",
					       (json_int_t)n, "Hard", (json_int_t)n));
}

/*
 * podman lowers its own process limit to PODMAN_NPROC. Its default for containers is then
 * higher than what root may set without CAP_SYS_RESOURCE, so set a lower one.
 */
static json_t *spec_rlimits(const struct warren_spec *spec)
{
	json_t *list = json_array();
	struct rlimit l;
	int r = add_rlimit(list, "nofile", spec_nofile(spec));

	if (r == 0 && !caps_have(CAP_SYS_RESOURCE) && getrlimit(RLIMIT_NPROC, &l) == 0 &&
	    l.rlim_max != RLIM_INFINITY)
		r = add_rlimit(list, "nproc",
			       l.rlim_max < PODMAN_NPROC ? l.rlim_max : PODMAN_NPROC);
	if (r == 0)
		return list;
	json_decref(list);
	return NULL;
}

/*
 * The daemon writes /etc/hosts; without a network, it adds no line for the host name. A
 * name with a domain also resolves without the domain, as in base/hosts.c.
 */
static json_t *own_names(const struct shim_sandbox *p, const struct warren_spec *spec)
{
	const char *name = spec->hostname ? spec->hostname : p->id;
	size_t label = strcspn(name, ".");
	json_t *list = json_array();
	int r = json_array_append_new(list, json_sprintf("%s:127.0.0.1", name));

	if (r == 0 && name[label])
		r = json_array_append_new(
			list, json_sprintf("%.*s:127.0.0.1", (int)label, name));
	if (r == 0)
		return list;
	json_decref(list);
	return NULL;
}

static json_t *host_config(const struct shim_sandbox *p, const struct warren_spec *spec,
			   const struct warren_limits *limits, const json_t *volumes,
			   bool with_socket)
{
	json_t *host = json_pack(
		"{s:o, s:[s], s:o, s:[s], s:o, s:s, s:s, s:s, s:b, s:{s:s}, s:{s:s}, "
		"s:o}",
		"Mounts", all_mounts(p, spec, volumes, with_socket), "CapDrop", "ALL",
		"CapAdd", kept_caps(), "SecurityOpt", "no-new-privileges", "ExtraHosts",
		own_names(p, spec), "NetworkMode", "none", "IpcMode", "private",
		"CgroupnsMode", "private", "ReadonlyRootfs", spec->read_only, "LogConfig",
		"Type", "none", "RestartPolicy", "Name", "no", "Ulimits",
		spec_rlimits(spec));

	if (host && docker_put_limits(host, limits))
		return host;
	json_decref(host);
	return NULL;
}

static json_t *spec_environment(const struct warren_spec *spec)
{
	json_t *list = json_array();

	for (size_t i = 0; spec->env && spec->env[i]; i++)
		if (json_array_append_new(list, json_string(spec->env[i])) < 0) {
			json_decref(list);
			return NULL;
		}
	return list;
}

/*
 * Disable the image's own health checks, because the client did not request these
 * commands. Set the stop signal to the only one that the guest agent handles: otherwise,
 * a daemon that is stopped waits ten seconds for each container.
 */
json_t *docker_spec(const struct shim_sandbox *p, const struct warren_spec *spec,
		    const struct warren_limits *limits, const char *image,
		    const json_t *volumes, bool with_socket)
{
	char engine[sizeof(p->dir)];

	docker_engine(p, engine);
	return json_pack(
		"{s:s, s:[s,s*,s*], s:[], s:s, s:s*, s:s*, s:o, s:{s:[s]}, s:s, "
		"s:{s:s, s:s}, s:o}",
		"Image", image, "Entrypoint", DOCKER_GUEST, with_socket ? "serve" : NULL,
		with_socket ? DOCKER_GUEST_SOCKET : NULL, "Cmd", "Hostname",
		spec->hostname ? spec->hostname : p->id, "User",
		with_socket && p->user ? "0" : p->user, "WorkingDir", spec->workdir,
		"Env", spec_environment(spec), "Healthcheck", "Test", "NONE",
		"StopSignal", "SIGKILL", "Labels", "warren.id", p->id, "warren.engine",
		engine, "HostConfig", host_config(p, spec, limits, volumes, with_socket));
}
