/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup_update.c - raise and lower limits of a live cgroup */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "os/cgroup.h"

#define CPU_PERIOD 100000 /* in microseconds; the kernel's default */

/* The cgroup of a sandbox. */
struct file_target {
	const struct cgroup_root *root;
	const char *id;
};

static void file_path(const struct file_target *p, const char *file, char *path,
		      size_t size)
{
	(void)snprintf(path, size, "%s%s/%s", p->id,
		       p->root->mode == CGROUP_V2 ? "/box" : "", file);
}

static int cgroup_update_set_text(const struct file_target *p, enum cgroup_controller c,
				  const char *file, const char *text)
{
	char path[96];

	file_path(p, file, path, sizeof(path));
	return fd_write_file_at(p->root->dir[c], path, text);
}

static int cgroup_update_set_number(const struct file_target *p, enum cgroup_controller c,
				    const char *file, uint64_t n)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%ju", (uintmax_t)n);
	return cgroup_update_set_text(p, c, file, text);
}

/*
 * The limit of memory plus swap must not be below that of memory alone, so raising and
 * lowering use a different order.
 */
static int set_memory_v1(const struct file_target *p, uint64_t old, uint64_t next)
{
	const char *files[] = { "memory.limit_in_bytes", "memory.memsw.limit_in_bytes" };
	int first = next > old, r;

	r = cgroup_update_set_number(p, CGROUP_MEMORY, files[first], next);
	if (r < 0 && !(first == 1 && r == -ENOENT)) /* this kernel does not count swap */
		return r;
	r = cgroup_update_set_number(p, CGROUP_MEMORY, files[!first], next);
	if (r == -ENOENT && first == 0)
		return 0;
	if (r < 0)
		(void)cgroup_update_set_number(p, CGROUP_MEMORY, files[first], old);
	return r;
}

/*
 * v2 accepts any limit, and kills processes until it is met. So the soft limit
 * (memory.high) first makes the kernel reclaim memory.
 */
static int set_memory_v2(const struct file_target *p, uint64_t next)
{
	uint64_t used = 0;
	char path[96];
	int r = 0;

	file_path(p, "memory.current", path, sizeof(path));
	(void)fd_read_u64_at(p->root->dir[CGROUP_MEMORY], path, &used);
	if (used > next) {
		(void)cgroup_update_set_number(p, CGROUP_MEMORY, "memory.high", next);
		(void)fd_read_u64_at(p->root->dir[CGROUP_MEMORY], path, &used);
		r = used > next ? -EBUSY : 0;
	}
	if (r == 0)
		r = cgroup_update_set_number(p, CGROUP_MEMORY, "memory.max", next);
	(void)cgroup_update_set_text(p, CGROUP_MEMORY, "memory.high", "max");
	return r;
}

static int set_memory(const struct file_target *p, const struct cgroup_limits *old,
		      const struct cgroup_limits *next)
{
	int r;

	if (p->root->mode == CGROUP_V2)
		return set_memory_v2(p, next->memory);
	r = set_memory_v1(p, old->memory, next->memory);
	if (r < 0 || next->memory == UINT64_MAX)
		return r;
	r = cgroup_update_set_number(p, CGROUP_MEMORY, CGROUP_SOCKETS_FILE,
				     cgroup_socket_limit(p->root, next->memory));
	/* Kernels that count sockets only as memory have no such file. */
	return r == -ENOENT ? 0 : r;
}

static int set_cpu(const struct file_target *p, const struct cgroup_limits *old UNUSED,
		   const struct cgroup_limits *next)
{
	uint64_t quota = next->cpu_millis * CPU_PERIOD / 1000;
	char text[48];

	if (p->root->mode == CGROUP_V1) {
		return quota ? cgroup_update_set_number(p, CGROUP_CPU, "cpu.cfs_quota_us",
							quota)
			     : cgroup_update_set_text(p, CGROUP_CPU, "cpu.cfs_quota_us",
						      "-1");
	}
	(void)snprintf(text, sizeof(text), "%ju %d", (uintmax_t)quota, CPU_PERIOD);
	return cgroup_update_set_text(p, CGROUP_CPU, "cpu.max", quota ? text : "max");
}

static int set_pids(const struct file_target *p, const struct cgroup_limits *old UNUSED,
		    const struct cgroup_limits *next)
{
	return cgroup_update_set_number(p, CGROUP_PIDS, "pids.max", next->pids);
}

static const struct {
	const char *name;
	enum cgroup_controller controller;
	size_t at; /* position in struct cgroup_limits */
	int (*set)(const struct file_target *p, const struct cgroup_limits *old,
		   const struct cgroup_limits *next);
} kinds[] = {
	{ "memory", CGROUP_MEMORY, offsetof(struct cgroup_limits, memory), set_memory },
	{ "cpus", CGROUP_CPU, offsetof(struct cgroup_limits, cpu_millis), set_cpu },
	{ "pids", CGROUP_PIDS, offsetof(struct cgroup_limits, pids), set_pids },
};

static uint64_t limit_at(const struct cgroup_limits *lim, size_t at)
{
	return *(const uint64_t *)(const void *)((const char *)lim + at);
}

int cgroup_update(const struct cgroup_root *root, const char *id,
		  const struct cgroup_limits *old, const struct cgroup_limits *next,
		  struct warren_error *err)
{
	const struct file_target p = { root, id };
	size_t done = 0;
	int r = 0;

	for (; done < ARRAY_SIZE(kinds); done++) {
		if (limit_at(old, kinds[done].at) == limit_at(next, kinds[done].at))
			continue;
		if (!cgroup_has(root, kinds[done].controller))
			r = error_set(err, EOPNOTSUPP,
				      "%s: a limit cannot be enforced here; see 'warren "
				      "doctor'",
				      kinds[done].name);
		else if ((r = kinds[done].set(&p, old, next)) == -EBUSY)
			(void)error_set(
				err, EBUSY,
				"%s: the sandbox uses more than %ju, and the kernel "
				"cannot reclaim enough",
				kinds[done].name,
				(uintmax_t)limit_at(next, kinds[done].at));
		else if (r < 0)
			(void)error_errno(err, -r, "set the limit of %s",
					  kinds[done].name);
		if (r < 0)
			break;
	}
	/* Undo the changes that were made, so that either all limits change or none. */
	while (r < 0 && done-- > 0)
		if (limit_at(old, kinds[done].at) != limit_at(next, kinds[done].at))
			(void)kinds[done].set(&p, next, old);
	return r;
}

bool cgroup_frozen(const struct cgroup_root *root, const char *id)
{
	bool v2 = root->mode == CGROUP_V2;
	const struct file_target p = { root, id };
	char path[96], text[256];

	if (!cgroup_has(root, CGROUP_FREEZER))
		return false;
	file_path(&p, v2 ? "cgroup.freeze" : "freezer.state", path, sizeof(path));
	if (fd_read_file_at(root->dir[CGROUP_FREEZER], path, text, sizeof(text)) < 0)
		return false;
	return v2 ? text[0] == '1' : strncmp(text, "THAWED", 6) != 0;
}
