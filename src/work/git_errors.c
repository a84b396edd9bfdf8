/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git_errors.c - what git says on its standard error when it fails
 *
 * git writes to a file in memory and not to a pipe, because no thread reads it while
 * git runs. The size of the file is fixed, and git ignores that it cannot write more.
 */
#include "work/git_errors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"

#define GIT_ERRORS_MAX 16384

int git_errors_open(void)
{
	AUTO_CLOSE int fd = memfd_create("git-errors", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, GIT_ERRORS_MAX) < 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
		return -errno;
	return TAKE_FD(fd);
}

/* Texts of git, whose messages are not translated (LC_ALL=C). */
static const struct {
	const char *text;
	int code;
} git_system_errors[] = {
	{ "No space left on device", ENOSPC }, { "Disk quota exceeded", EDQUOT },
	{ "Read-only file system", EROFS },    { "Permission denied", EACCES },
	{ "Input/output error", EIO },         { "out of memory", ENOMEM },
	{ "Cannot allocate memory", ENOMEM },  { "Too many open files", EMFILE },
};

static int git_errors_code(const char *text)
{
	for (size_t i = 0; i < ARRAY_SIZE(git_system_errors); i++)
		if (strcasestr(text, git_system_errors[i].text))
			return git_system_errors[i].code;
	return 0;
}

static bool git_errors_is(const char *line)
{
	return strncmp(line, "fatal: ", 7) == 0 || strncmp(line, "error: ", 7) == 0;
}

int git_errors_read(int fd, char ret[GIT_ERRORS_SIZE])
{
	char text[GIT_ERRORS_MAX + 1];
	ssize_t n = pread(fd, text, GIT_ERRORS_MAX, 0);
	const char *last = NULL, *before = NULL;
	char *save = NULL;

	text[n > 0 ? n : 0] = '\0';
	/* All other lines are hints, or progress before the failure. */
	for (char *line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		if (!git_errors_is(line))
			continue;
		before = last;
		last = line + 7;
	}
	(void)snprintf(ret, GIT_ERRORS_SIZE, "%.*s%s%.*s", GIT_ERRORS_SIZE / 2 - 4,
		       before ? before : "", before ? "; " : "", GIT_ERRORS_SIZE / 2 - 4,
		       last ? last : "");
	for (char *c = ret; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	return git_errors_code(ret);
}
