/* SPDX-License-Identifier: Apache-2.0 */
/* git_top.c - find the repository above a project, by the rules that git has */
#include "work/git_top.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

/* Is there a repository that belongs to the user or to the owner of the project? */
static bool git_top_is(const char *dir, const struct stat *project)
{
	AUTO_CLOSE int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstatat(fd, ".git", &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	if (st.st_uid != 0 && st.st_uid != geteuid() && st.st_uid != project->st_uid)
		return false;
	return S_ISREG(st.st_mode) ||
	       (S_ISDIR(st.st_mode) &&
		faccessat(fd, ".git/HEAD", F_OK, AT_SYMLINK_NOFOLLOW) == 0);
}

int git_top(const char *project, char **ret)
{
	AUTO_FREE char *top = strdup(project);
	struct stat here, st;
	char *slash;

	if (!top)
		return -ENOMEM;
	if (stat(project, &here) < 0 || git_top_is(project, &here))
		return 0;
	for (int i = 0; i < GIT_TOP_ABOVE_MAX; i++) {
		slash = strrchr(top, '/');
		if (!slash || slash == top)
			break;
		*slash = '\0';
		/* git does not search other filesystems. */
		if (stat(top, &st) < 0 || st.st_dev != here.st_dev)
			break;
		if (git_top_is(top, &here)) {
			*ret = TAKE_PTR(top);
			return 1;
		}
	}
	return 0;
}
