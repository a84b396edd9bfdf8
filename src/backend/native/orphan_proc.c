/* SPDX-License-Identifier: Apache-2.0 */
/*
 * orphan_proc.c - read facts about a process from /proc, some of which another user may
 * have chosen
 */
#include "backend/native/orphan_proc.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

#define PF_EXITING 0x4 /* a flag in /proc/PID/stat */

uint64_t proc_uid(const char *pid)
{
	char path[280];
	struct stat st;

	(void)snprintf(path, sizeof(path), "/proc/%s", pid);
	return stat(path, &st) < 0 ? UINT64_MAX : st.st_uid;
}

void proc_name(const char *pid, char ret[32])
{
	char path[280];

	(void)snprintf(path, sizeof(path), "/proc/%s/comm", pid);
	if (fd_read_file_at(AT_FDCWD, path, ret, 32) <= 0)
		ret[0] = '\0';
	ret[strcspn(ret, "\n")] = '\0';
}

/*
 * Does the program of @pid belong to this engine's user, and does its link in /proc equal
 * @link or end in it?
 */
bool proc_runs(const char *pid, const char *link)
{
	char path[280], text[4096], *deleted;
	struct stat st;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/%s/exe", pid);
	n = readlink(path, text, sizeof(text) - 1);
	if (n <= 0 || stat(path, &st) < 0 || st.st_uid != geteuid())
		return false;
	text[n] = '\0';
	deleted = strstr(text, " (deleted)");
	if (deleted)
		*deleted = '\0';
	return strlen(text) >= strlen(link) &&
	       strcmp(text + strlen(text) - strlen(link), link) == 0;
}

/* Read the user ids of a process, and its process id in its innermost namespace. */
bool proc_ids(const char *pid, uint32_t uids[3], int *ret_inner)
{
	char path[280], *line = NULL;
	size_t size = 0;
	unsigned found = 0;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%s/status", pid);
	f = fopen(path, "re");
	while (f && getline(&line, &size, f) > 0) {
		const char *last = strrchr(line, '\t');

		if (sscanf(line, "Uid: %u %u %u", &uids[0], &uids[1], &uids[2]) == 3)
			found |= 1;
		if (last && strncmp(line, "NSpid:", 6) == 0) {
			*ret_inner = atoi(last + 1);
			found |= 2;
		}
	}
	if (f)
		(void)fclose(f);
	free(line);
	return found == 3;
}

/* Is the process exiting? The kernel says so in the flags of /proc/PID/stat. */
bool proc_is_exiting(const char *pid)
{
	char path[280], text[1024];
	const char *rest;
	unsigned long flags = 0;

	(void)snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	if (fd_read_file_at(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return false;
	rest = strrchr(text, ')'); /* a name may contain any character */
	return rest && sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %lu", &flags) == 1 &&
	       flags & PF_EXITING;
}
