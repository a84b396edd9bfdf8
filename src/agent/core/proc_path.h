/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proc_path.h - which files of /proc can be read for a client
 *
 * A client should see what a command would see, but the process that reads for it is not
 * a command: its own descriptors, memory and environment must not be shown, and no link
 * of a process must be followed. So only those files of processes are read that say the
 * same about every process, or that every process may read.
 */
#ifndef AGENT_CORE_PROC_PATH_H
#define AGENT_CORE_PROC_PATH_H

#include <stdbool.h>
#include <stddef.h>

#define PROC_PATH_ROOT "/proc/"

/* Return the rest of @path after @prefix; NULL: it begins with something else. */
static inline const char *proc_path_after(const char *path, const char *prefix)
{
	for (; *prefix; path++, prefix++)
		if (*path != *prefix)
			return NULL;
	return path;
}

static inline bool proc_path_is_one(const char *path, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *rest = proc_path_after(path, names[i]);

		if (rest && *rest == '\0')
			return true;
	}
	return false;
}

/* Do all parts have names, so that the beginning says where the path leads? */
static inline bool proc_path_is_plain(const char *path)
{
	for (; *path; path++)
		if (path[0] == '/' &&
		    (path[1] == '/' || path[1] == '.' || path[1] == '\0'))
			return false;
	return true;
}

/* @path begins with /proc/; @own is the process that reads; 0: it has "self" in its path.
 */
static inline bool proc_path_may_read(const char *path, int own)
{
	static const char *const of_all[] = { "cgroup", "cmdline", "comm",
					      "limits", "mounts",  "mountinfo",
					      "stat",   "statm",   "status" };
	static const char *const of_reader[] = { "mounts", "mountinfo" };
	static const char *const of_kernel[] = { "kcore",       "kmsg",
						 "kpagecgroup", "kpagecount",
						 "kpageflags",  "sysrq-trigger" };
	const char *rest = proc_path_after(path, PROC_PATH_ROOT);
	const char *name = rest ? proc_path_after(rest, "self/") : NULL;
	bool reader = name;
	int pid = 0;

	if (!rest || !proc_path_is_plain(path) ||
	    proc_path_is_one(rest, of_kernel, sizeof(of_kernel) / sizeof(*of_kernel)) ||
	    proc_path_after(rest, "thread-self"))
		return false;
	if (!reader && (*rest < '0' || *rest > '9'))
		return true;
	if (!reader) {
		for (; *rest >= '0' && *rest <= '9' && pid < 100000000; rest++)
			pid = pid * 10 + (*rest - '0');
		if (*rest != '/')
			return false;
		name = rest + 1;
		reader = pid == own;
	}
	if (proc_path_after(name, "net/"))
		return true;
	if (!reader)
		return proc_path_is_one(name, of_all, sizeof(of_all) / sizeof(*of_all));
	return proc_path_is_one(name, of_reader, sizeof(of_reader) / sizeof(*of_reader));
}

#endif /* AGENT_CORE_PROC_PATH_H */
