/* SPDX-License-Identifier: Apache-2.0 */
/* probe.c - find out what gVisor supports on this machine */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "base/fd.h"
#include "os/caps.h"
#include "os/mount.h"
#include "shim/gvisor/gvisor.h"

#define FIX_RUNSC   "apt-get install runsc"
#define VERSION_MAX 100
/*
 * The last version known to refuse a flag of stat(2) that coreutils have used since 9.0.
 */
#define STRICT_STAT 20221219

int gvisor_find_runsc(const json_t *config, char ret[GVISOR_PATH_MAX],
		      struct warren_error *err)
{
	static const char *const dirs[] = { "/usr/local/sbin", "/usr/local/bin",
					    "/usr/sbin",       "/usr/bin",
					    "/sbin",           "/bin" };
	const char *own = json_string_value(json_object_get(config, "runsc"));

	if (own) {
		(void)snprintf(ret, GVISOR_PATH_MAX, "%s", own);
		if (own[0] == '/' && strlen(own) < GVISOR_PATH_MAX &&
		    access(own, X_OK) == 0)
			return 0;
		return error_set(err, ENODEV,
				 "'%s' (runsc, as configured) is not a program", own);
	}
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		(void)snprintf(ret, GVISOR_PATH_MAX, "%s/runsc", dirs[i]);
		if (access(ret, X_OK) == 0)
			return 0;
	}
	return error_set(err, ENODEV, "runsc is not installed: " FIX_RUNSC);
}

struct found {
	const json_t *config;
	struct cgroup_root cgroups;
};

static bool probe_say(struct warren_feature *f, bool ok, const char *fmt, ...)
	PRINTF_LIKE(3, 4);

static bool probe_say(struct warren_feature *f, bool ok, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(f->detail, sizeof(f->detail), fmt, ap);
	va_end(ap);
	return ok;
}

/* Write the first line of `runsc --version` to @text. */
static void ask_version(const char *runsc, char *text, size_t size)
{
	const char *argv[] = { "runsc", "--version", NULL };
	int ends[2];
	ssize_t n;
	pid_t pid;

	text[0] = '\0';
	if (pipe2(ends, O_CLOEXEC) < 0)
		return;
	pid = fork();
	if (pid == 0) {
		(void)dup2(ends[1], 1);
		(void)execv(runsc, (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	(void)close(ends[1]);
	n = pid < 0 ? 0 : fd_read_all(ends[0], text, size - 1);
	(void)close(ends[0]);
	if (pid > 0)
		(void)waitpid(pid, NULL, 0);
	text[n > 0 ? n : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
}

static bool gvisor_probe_runsc(const struct found *h, struct warren_feature *f)
{
	struct warren_error err = WARREN_ERROR_INIT;
	char path[GVISOR_PATH_MAX], version[VERSION_MAX];

	if (gvisor_find_runsc(h->config, path, &err) < 0)
		return probe_say(f, false, "%.150s", err.msg);
	ask_version(path, version, sizeof(version));
	return probe_say(f, version[0] != '\0', "%.40s: %s", path,
			 version[0] ? version : "it does not run");
}

/*
 * Return the day in "runsc version 0.0~20221219.0" or "runsc version release-20240212.0";
 * 0: it is not known.
 */
static unsigned long release_day(const char *version)
{
	const char *p = version;

	while (*p && strspn(p, "0123456789") != 8)
		p += strspn(p, "0123456789") ? strspn(p, "0123456789") : 1;
	return strtoul(p, NULL, 10);
}

static bool probe_stat(const struct found *h, struct warren_feature *f)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	char path[GVISOR_PATH_MAX], version[VERSION_MAX] = "";
	unsigned long day;

	if (gvisor_find_runsc(h->config, path, &ignored) == 0)
		ask_version(path, version, sizeof(version));
	day = release_day(version);
	return day == 0 ? probe_say(f, false, "not known")
	       : day > STRICT_STAT
		       ? probe_say(f, true, "newer than %d", STRICT_STAT)
		       : probe_say(f, false, "statx(2) refuses AT_NO_AUTOMOUNT");
}

static bool probe_root(const struct found *h UNUSED, struct warren_feature *f)
{
	bool ok = geteuid() == 0 && caps_have(CAP_SYS_ADMIN);

	return probe_say(f, ok, ok ? "this is root" : "this is uid %u", geteuid());
}

static bool gvisor_probe_cgroups(const struct found *h, struct warren_feature *f)
{
	bool ok = cgroup_has(&h->cgroups, CGROUP_MEMORY) &&
		  cgroup_has(&h->cgroups, CGROUP_PIDS) &&
		  cgroup_has(&h->cgroups, CGROUP_CPU) &&
		  cgroup_has(&h->cgroups, CGROUP_FREEZER);

	return probe_say(f, ok, "%s%s%s", cgroup_mode_name(h->cgroups.mode),
			 h->cgroups.why[0] ? ": " : "", h->cgroups.why);
}

static bool probe_tmpfs(const struct found *h UNUSED, struct warren_feature *f)
{
	static const struct mount_option options[] = { { "size", "4096" },
						       { NULL, NULL } };
	struct warren_error ignored = WARREN_ERROR_INIT;
	AUTO_CLOSE int fd = -1, file = -1;

	if (mount_new("tmpfs", options, 0, &fd, &ignored) == 0)
		file = openat(fd, "x", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	return file >= 0 && fsetxattr(file, "user.warren", "y", 1, 0) == 0
		       ? probe_say(f, true, "tmpfs has user attributes")
		       : probe_say(f, false, "no user attributes on tmpfs");
}

static bool probe_checkpoint(const struct found *h UNUSED, struct warren_feature *f)
{
	return probe_say(f, true, "if no process inside uses a stream of a command");
}

static bool probe_ports(const struct found *h UNUSED, struct warren_feature *f)
{
	return probe_say(f, true, "by Warren's program inside");
}

static const struct {
	const char *name;
	bool required;
	bool (*run)(const struct found *h, struct warren_feature *f);
	const char *effect, *fix;
} probes[] = {
	{ "runsc", true, gvisor_probe_runsc, "the gVisor tier is not available",
	  FIX_RUNSC },
	{ "root", true, probe_root, "no sandbox can be created", "run it as root" },
	{ "cgroups", true, gvisor_probe_cgroups, "no sandbox can be created",
	  "run as root, with the cpu, memory, pids and freezer controllers" },
	{ "tmpfs attributes", false, probe_tmpfs,
	  "a removed directory of the image cannot be created again",
	  "use kernel 6.6 or later" },
	{ "coreutils 9", false, probe_stat,
	  "'ls' and 'stat' of such images (Debian 12) fail inside: Invalid argument",
	  "install a newer runsc, and set it in the configuration" },
	{ "checkpoint", false, probe_checkpoint, NULL, NULL },
	{ "ports", false, probe_ports, NULL, NULL },
};

int gvisor_probe(const char *name UNUSED, const json_t *config,
		 struct warren_feature *features, size_t max, struct warren_error *err)
{
	struct found h = { .config = config };

	if (max < ARRAY_SIZE(probes))
		return error_set(err, ENOSPC, "too many features");
	cgroup_root_open(&h.cgroups);
	for (size_t i = 0; i < ARRAY_SIZE(probes); i++) {
		struct warren_feature *f = &features[i];

		*f = (struct warren_feature){ .name = probes[i].name,
					      .required = probes[i].required };
		f->ok = probes[i].run(&h, f);
		if (!f->ok) {
			f->effect = probes[i].effect;
			f->fix = probes[i].fix;
		}
	}
	cgroup_root_close(&h.cgroups);
	return ARRAY_SIZE(probes);
}
