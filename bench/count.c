/* SPDX-License-Identifier: Apache-2.0 */
/*
 * count.c - count the kernel objects that sandboxes consist of, and the machine's memory
 *
 * Processes, descriptors and files are counted only where this process creates them.
 * Mounts, cgroups, namespaces and loop devices are those of the machine, so sandboxes
 * that others create in the meantime are counted too.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "bench.h"

/* Time for the kernel to free objects, and for other processes to end. */
#define SETTLE_MS 10000

static const char *const count_names[COUNT_MAX] = {
	[COUNT_PROCESSES] = "processes", [COUNT_MOUNTS] = "mounts",
	[COUNT_CGROUPS] = "cgroups",     [COUNT_NAMESPACES] = "namespaces",
	[COUNT_LOOPS] = "loop devices",  [COUNT_FDS] = "descriptors",
	[COUNT_FILES] = "files",
};

/* Count the entries of @path for which @match returns true; 0 if it cannot be read. */
static unsigned count_entries(const char *path,
			      bool (*match)(int dir, const struct dirent *e))
{
	DIR *d = opendir(path);
	struct dirent *e;
	unsigned n = 0;

	while (d && (e = readdir(d)))
		n += e->d_name[0] != '.' && (!match || match(dirfd(d), e));
	if (d)
		(void)closedir(d);
	return n;
}

static bool is_dir(int dir UNUSED, const struct dirent *e)
{
	return e->d_type == DT_DIR;
}

static bool is_bound_loop(int dir, const struct dirent *e)
{
	char path[300];

	if (strncmp(e->d_name, "loop", 4) != 0)
		return false;
	(void)snprintf(path, sizeof(path), "%s/loop/backing_file", e->d_name);
	return faccessat(dir, path, F_OK, 0) == 0;
}

/* Return the parent of a process in /proc; 0 if it is gone. */
static pid_t parent_of(int dir, const char *name)
{
	char path[300], text[1024], *p;

	(void)snprintf(path, sizeof(path), "%s/stat", name);
	if (fd_read_file_at(dir, path, text, sizeof(text)) <= 0)
		return 0;
	p = strrchr(text, ')');
	return p && strlen(p) > 4 ? (pid_t)strtol(p + 4, NULL, 10) : 0;
}

static bool is_child(int dir, const struct dirent *e)
{
	return isdigit((unsigned char)e->d_name[0]) &&
	       parent_of(dir, e->d_name) == getpid();
}

static unsigned count_lines(const char *path)
{
	FILE *f = fopen(path, "re");
	unsigned n = 0;
	int c;

	while (f && (c = getc(f)) != EOF)
		n += c == '\n';
	if (f)
		(void)fclose(f);
	return n;
}

static unsigned count_cgroups(void)
{
	static const char *const roots[] = {
		"/sys/fs/cgroup/warren",         "/sys/fs/cgroup/cpu/warren",
		"/sys/fs/cgroup/cpuacct/warren", "/sys/fs/cgroup/memory/warren",
		"/sys/fs/cgroup/pids/warren",    "/sys/fs/cgroup/freezer/warren",
	};
	unsigned n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(roots); i++)
		n += count_entries(roots[i], is_dir);
	return n;
}

struct inodes {
	ino_t v[65536];
	size_t n;
};

static int compare_inodes(const void *a, const void *b)
{
	ino_t x = *(const ino_t *)a, y = *(const ino_t *)b;

	return x < y ? -1 : x > y;
}

/* Count the distinct namespaces of every kind, of all processes. */
static unsigned count_namespaces(void)
{
	static const char *const kinds[] = { "net", "mnt", "pid",   "user",
					     "ipc", "uts", "cgroup" };
	static struct inodes all;
	DIR *d = opendir("/proc");
	struct dirent *e;
	unsigned n = 0;

	all.n = 0;
	while (d && (e = readdir(d))) {
		for (size_t i = 0;
		     isdigit((unsigned char)e->d_name[0]) && i < ARRAY_SIZE(kinds); i++) {
			char path[300];
			struct stat st;

			(void)snprintf(path, sizeof(path), "%s/ns/%s", e->d_name,
				       kinds[i]);
			if (fstatat(dirfd(d), path, &st, 0) == 0 &&
			    all.n < ARRAY_SIZE(all.v))
				all.v[all.n++] = st.st_ino;
		}
	}
	if (d)
		(void)closedir(d);
	qsort(all.v, all.n, sizeof(all.v[0]), compare_inodes);
	for (size_t i = 0; i < all.n; i++)
		n += i == 0 || all.v[i] != all.v[i - 1];
	return n;
}

static unsigned count_files(const char *run_dir)
{
	char engines[96], ids[96];

	(void)snprintf(engines, sizeof(engines), "%s/engines", run_dir);
	(void)snprintf(ids, sizeof(ids), "%s/ids", run_dir);
	return count_entries(engines, NULL) + count_entries(ids, NULL);
}

void counts_take(const struct bench *b, struct counts *ret)
{
	*ret = (struct counts){ {
		[COUNT_PROCESSES] = count_entries("/proc", is_child),
		[COUNT_MOUNTS] = count_lines("/proc/self/mountinfo"),
		[COUNT_CGROUPS] = count_cgroups(),
		[COUNT_NAMESPACES] = count_namespaces(),
		[COUNT_LOOPS] = count_entries("/sys/block", is_bound_loop),
		[COUNT_FDS] = count_entries("/proc/self/fd", NULL),
		[COUNT_FILES] = count_files(b->run_dir),
	} };
}

/* Keep the smaller value of each count: an object that was gone once has not leaked,
 * whatever was created later. */
static unsigned lower(struct counts *least, const struct counts *now,
		      const struct counts *before)
{
	unsigned excess = 0;

	for (size_t i = 0; i < COUNT_MAX; i++) {
		if (now->v[i] < least->v[i])
			least->v[i] = now->v[i];
		if (least->v[i] > before->v[i])
			excess += least->v[i] - before->v[i];
	}
	return excess;
}

unsigned counts_report(struct bench *b, const struct counts *before)
{
	struct counts least, now;
	unsigned n;

	counts_take(b, &least);
	n = lower(&least, &least, before);
	for (int i = 0; n > 0 && i < SETTLE_MS / 50; i++) {
		(void)usleep(50000);
		counts_take(b, &now);
		n = lower(&least, &now, before);
	}
	(void)printf("  %-20s", "left behind");
	for (size_t i = 0; i < COUNT_MAX; i++)
		(void)printf(" %s %u->%u%s", count_names[i], before->v[i], least.v[i],
			     i + 1 < COUNT_MAX ? "," : "\n");
	return n;
}

/* ---------------------------------------------------------------- memory */

/* Return the number after "@key:" in @text, in kB. */
static uint64_t field(const char *text, const char *key)
{
	size_t len = strlen(key);

	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, key, len) == 0 && line[len] == ':')
			return strtoull(line + len + 1, NULL, 10);
	}
	return 0;
}

/*
 * Return the memory of all slab objects in use, in kB; 0 without permission to read it.
 */
static uint64_t slab_in_use(void)
{
	FILE *f = fopen("/proc/slabinfo", "re");
	uint64_t sum = 0;
	char line[512];

	while (f && fgets(line, sizeof(line), f)) {
		uint64_t used = 0, size = 0;

		if (sscanf(line, "%*s %" SCNu64 " %*u %" SCNu64, &used, &size) == 2)
			sum += used * size;
	}
	if (f)
		(void)fclose(f);
	return sum / 1024;
}

void memory_read(struct memory *ret)
{
	char text[8192] = "";

	(void)fd_read_file_at(AT_FDCWD, "/proc/meminfo", text, sizeof(text));
	*ret = (struct memory){
		.available = field(text, "MemAvailable"),
		.slab = field(text, "Slab"),
		.percpu = field(text, "Percpu"),
		.stacks = field(text, "KernelStack"),
		.page_tables = field(text, "PageTables"),
		.anon = field(text, "AnonPages"),
		.shmem = field(text, "Shmem"),
		.objects = slab_in_use(),
	};
	ret->in_use = field(text, "MemTotal") - field(text, "MemFree") -
		      field(text, "Buffers") - field(text, "Cached") + ret->shmem;
}

uint64_t memory_of_children(unsigned max)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	uint64_t sum = 0;
	unsigned n = 0;

	while (d && n < max && (e = readdir(d))) {
		char path[300], text[4096];

		if (!is_child(dirfd(d), e))
			continue;
		(void)snprintf(path, sizeof(path), "%s/smaps_rollup", e->d_name);
		if (fd_read_file_at(dirfd(d), path, text, sizeof(text)) <= 0)
			continue;
		sum += field(text, "Pss");
		n++;
	}
	if (d)
		(void)closedir(d);
	return n ? sum / n : 0;
}
