/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bundle.c - config.json of the OCI runtime specification
 *
 * exec.c reads the defaults of commands from it (environment, directory, user), and
 * checkpoint.c reads whether there is a network.
 */
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/default_path.h"
#include "os/caps.h"
#include "shim/gvisor/gvisor.h"

#define TMPFS_SIZE (64U << 20)

static const char *const cap_names[] = {
	[CAP_CHOWN] = "CAP_CHOWN",
	[CAP_DAC_OVERRIDE] = "CAP_DAC_OVERRIDE",
	[CAP_FOWNER] = "CAP_FOWNER",
	[CAP_FSETID] = "CAP_FSETID",
	[CAP_KILL] = "CAP_KILL",
	[CAP_SETGID] = "CAP_SETGID",
	[CAP_SETUID] = "CAP_SETUID",
	[CAP_SETPCAP] = "CAP_SETPCAP",
	[CAP_NET_BIND_SERVICE] = "CAP_NET_BIND_SERVICE",
	[CAP_SYS_CHROOT] = "CAP_SYS_CHROOT",
	[CAP_SETFCAP] = "CAP_SETFCAP",
};

/* The capabilities of pid 1 are the maximum for all processes inside. */
static json_t *bundle_capabilities(void)
{
	json_t *list = json_array(), *sets = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(cap_names); i++)
		if (cap_names[i] && caps_kept & 1ULL << i)
			(void)json_array_append_new(list, json_string(cap_names[i]));
	(void)json_object_set(sets, "bounding", list);
	(void)json_object_set(sets, "effective", list);
	(void)json_object_set_new(sets, "permitted", list);
	return sets;
}

static int bundle_add_env(json_t *list, const char *const *env, struct warren_error *err)
{
	for (; env && *env; env++)
		if (json_array_append_new(list, json_string(*env)) < 0)
			return error_set(
				err, EILSEQ,
				"a variable is not UTF-8, and runsc accepts nothing else");
	return 0;
}

/*
 * Write the environment. If several variables have the same name, the last one applies,
 * as in runsc.
 */
static int bundle_environment(const struct gvisor_making *m, json_t *list,
			      struct warren_error *err)
{
	static const char *const path[] = { DEFAULT_PATH_ENV, NULL };
	int r = bundle_add_env(list, path, err);

	if (r == 0 && m->image.has_config)
		r = bundle_add_env(list, (const char *const *)m->image.config.env, err);
	return r < 0 ? r : bundle_add_env(list, m->spec->env, err);
}

static const char *bundle_workdir(const struct gvisor_making *m)
{
	if (m->spec->workdir)
		return m->spec->workdir;
	return m->image.has_config && m->image.config.workdir[0] == '/'
		       ? m->image.config.workdir
		       : "/";
}

/* pid 1 runs as root; this user is stored for exec.c. The limits apply to every exec. */
static json_t *bundle_process(const struct gvisor_making *m, json_t *env)
{
	json_t *groups = json_array();

	for (size_t i = 0; i < m->user.n_groups; i++)
		(void)json_array_append_new(groups, json_integer(m->user.groups[i]));
	return json_pack(
		"{s:b, s:{s:i, s:i}, s:[s], s:O, s:s, s:b, s:o, s:[{s:s, s:I, s:I}, "
		"{s:s, s:I, s:I}], s:{s:I, s:I, s:o}}",
		"terminal", 0, "user", "uid", 0, "gid", 0, "args", GVISOR_FIRST, "env",
		env, "cwd", bundle_workdir(m), "noNewPrivileges", 1, "capabilities",
		bundle_capabilities(), "rlimits", "type", "RLIMIT_NPROC", "soft",
		(json_int_t)m->pids, "hard", (json_int_t)m->pids, "type", "RLIMIT_NOFILE",
		"soft", (json_int_t)m->nofile, "hard", (json_int_t)m->nofile,
		"warrenUser", "uid", (json_int_t)m->user.uid, "gid",
		(json_int_t)m->user.gid, "additionalGids", groups);
}

static json_t *tmpfs_mount(const char *target, uint64_t size, bool read_only)
{
	char option[40];

	(void)snprintf(option, sizeof(option), "size=%ju", (uintmax_t)size);
	return json_pack("{s:s, s:s, s:s, s:[s, s, s, s, s]}", "destination", target,
			 "type", "tmpfs", "source", "tmpfs", "options", "nosuid", "nodev",
			 "mode=1777", option, read_only ? "ro" : "rw");
}

static json_t *bind_mount(const char *target, const char *source, bool read_only)
{
	return json_pack("{s:s, s:s, s:s, s:[s, s, s, s]}", "destination", target, "type",
			 "bind", "source", source, "options", "rbind", "nosuid", "nodev",
			 read_only ? "ro" : "rw");
}

static json_t *bundle_mounts(const struct gvisor_making *m)
{
	char first[GVISOR_PATH_MAX];
	json_t *list = json_pack("[{s:s, s:s, s:s}]", "destination", "/proc", "type",
				 "proc", "source", "proc");

	gvisor_path(m->sandbox, "bundle/first", first);
	(void)json_array_append_new(list, tmpfs_mount("/dev/shm", TMPFS_SIZE, false));
	(void)json_array_append_new(list, bind_mount(GVISOR_FIRST, first, true));
	for (size_t i = 0; i < m->n_mounts; i++) {
		const struct gvisor_mount *v = &m->mounts[i];

		(void)json_array_append_new(
			list,
			v->source[0]
				? bind_mount(v->target, v->source, v->read_only)
				: tmpfs_mount(v->target, v->size ? v->size : TMPFS_SIZE,
					      v->read_only));
	}
	return list;
}

/* If this list has no network namespace, runsc uses that of its creator (network.c). */
static json_t *bundle_namespaces(const struct gvisor_making *m)
{
	json_t *list = json_pack("[{s:s}, {s:s}, {s:s}, {s:s}]", "type", "pid", "type",
				 "ipc", "type", "uts", "type", "mount");

	if (!m->captured)
		(void)json_array_append_new(list, json_pack("{s:s}", "type", "network"));
	return list;
}

int bundle_write(const struct gvisor_making *m, struct warren_error *err)
{
	char root[GVISOR_PATH_MAX], path[GVISOR_PATH_MAX];
	json_t *env = json_array(), *doc;
	int r = bundle_environment(m, env, err);

	gvisor_path(m->sandbox, "scratch/r", root);
	gvisor_path(m->sandbox, "bundle/config.json", path);
	doc = json_pack("{s:s, s:b, s:o, s:{s:s, s:b}, s:s, s:o, s:{s:o}}", "ociVersion",
			"1.0.2", "warrenNoNetwork", (int)m->no_network, "process",
			bundle_process(m, env), "root", "path", root, "readonly",
			(int)m->spec->read_only, "hostname", gvisor_hostname(m), "mounts",
			bundle_mounts(m), "linux", "namespaces", bundle_namespaces(m));
	json_decref(env);
	if (r == 0 && !doc)
		r = error_set(err, EINVAL,
			      "the hostname, the directory or a mount is not UTF-8, "
			      "and runsc accepts nothing else");
	if (r == 0 && json_dump_file(doc, path, JSON_COMPACT) < 0)
		r = error_errno(err, errno, "write '%s'", path);
	json_decref(doc);
	return r;
}
