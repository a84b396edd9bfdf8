/* SPDX-License-Identifier: Apache-2.0 */
/* native-sandbox.h - for tests of the native backend: a sandbox seen from outside */
#ifndef TEST_NATIVE_BOX_H
#define TEST_NATIVE_BOX_H

#include "backend/native/native.h"
#include "base/fd.h"
#include "core/handle.h"
#include "lib/sandbox.h"

#define MIB (1ULL << 20)

#define BEGIN(...)                                          \
	struct warren_error err UNUSED = WARREN_ERROR_INIT; \
	struct warren *w = native_engine();                 \
	struct warren_sandbox *sb = sandbox_make(w, &(struct warren_spec){ __VA_ARGS__ })
#define END()                        \
	do {                         \
		sandbox_destroy(sb); \
		w = warren_close(w); \
	} while (0)

static inline struct warren *native_engine(void)
{
	SKIP_UNLESS(geteuid() == 0, "needs root");
	return sandbox_engine("native");
}

static inline bool has_controller(struct warren *w, enum cgroup_controller c)
{
	return cgroup_has(&((struct native *)w->state)->cgroups, c);
}

static inline pid_t init_of(const struct warren_sandbox *sb)
{
	return ((const struct native_sandbox *)sb->sandbox)->pid;
}

/* Get the target of the link /proc/@pid/ns/@name; "" if there is no such process. */
static inline void ns_name(pid_t pid, const char *name, char *text, size_t size)
{
	char path[64];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, name);
	n = readlink(path, text, size - 1);
	text[n > 0 ? n : 0] = '\0';
}

/*
 * Return the number of live processes in the pid namespace @ns, including init, according
 * to the host.
 */
static inline size_t count_in_ns(const char *ns)
{
	DIR *d = opendir("/proc");
	size_t n = 0;

	OK(d && ns[0]);
	for (struct dirent *e = readdir(d); e; e = readdir(d)) {
		char text[64];

		if (e->d_name[0] < '0' || e->d_name[0] > '9')
			continue;
		ns_name(atoi(e->d_name), "pid", text, sizeof(text));
		n += strcmp(text, ns) == 0;
	}
	(void)closedir(d);
	return n;
}

static inline size_t count_processes(const struct warren_sandbox *sb)
{
	char ns[64];

	ns_name(init_of(sb), "pid", ns, sizeof(ns));
	return count_in_ns(ns);
}

/* Wait until @n processes are left in the sandbox. */
static inline void await_processes(const struct warren_sandbox *sb, size_t n)
{
	size_t seen = 0;

	for (int i = 0; i < SANDBOX_TRIES; i++, sandbox_nap()) {
		seen = count_processes(sb);
		if (seen == n)
			return;
	}
	TAP_FAIL("%zu processes, not %zu", seen, n);
}

/* Return a line of /proc/<init>/status, in KiB. */
static inline uint64_t init_memory(const struct warren_sandbox *sb, const char *key)
{
	char path[64], text[8192], *p;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)init_of(sb));
	OK(fd_read_file_at(AT_FDCWD, path, text, sizeof(text)) > 0);
	p = strstr(text, key);
	OK(p);
	return strtoull(p + strlen(key), NULL, 10);
}

/* Return the detail of the enforced feature @name; NULL: it is not enforced. */
static inline const char *enforced(const struct warren_sandbox *sb, const char *name)
{
	size_t n = 0;
	const struct warren_enforcement *e = warren_enforced(sb, &n);

	for (size_t i = 0; i < n; i++)
		if (strcmp(e[i].name, name) == 0)
			return e[i].enforced ? e[i].detail : NULL;
	return NULL;
}

#endif /* TEST_NATIVE_BOX_H */
