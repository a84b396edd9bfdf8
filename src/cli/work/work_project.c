/* SPDX-License-Identifier: Apache-2.0 */
/* work_project.c - check the directory of a project before a sandbox gets it */
#include "cli/work/work_project.h"

#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/userdirs.h"
#include "cli/command.h"
#include "work/git_top.h"
#include "work/hide.h"

/* Is @path @dir, or below it? */
static bool work_path_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 &&
	       (path[n] == '\0' || path[n] == '/' || (n > 0 && dir[n - 1] == '/'));
}

static bool work_path_contains(const char *project, const char *path)
{
	AUTO_FREE char *real = path && *path ? realpath(path, NULL) : NULL;

	return real && work_path_below(real, project);
}

int work_project_find(const char *path, char **ret, struct warren_error *err)
{
	AUTO_FREE char *project = realpath(path, NULL), *state = NULL;
	struct stat st;
	int r;

	if (!project || stat(project, &st) < 0)
		return error_errno(err, errno, "project '%s'", path);
	if (!S_ISDIR(st.st_mode))
		return error_errno(err, ENOTDIR, "project '%s'", path);
	if (strcmp(project, "/") == 0)
		return error_set(err, EINVAL,
				 "project '/': the whole machine cannot be a project");
	if (work_path_contains(project, getenv("HOME")))
		return error_set(err, EINVAL,
				 "project '%s': it contains the home directory, with "
				 "keys and passwords; use a directory in it",
				 project);
	if (hide_is_secret_dir(project))
		return error_set(err, EINVAL,
				 "project '%s': it is a directory for keys and "
				 "passwords, which a project would hide; use a copy of "
				 "what the command needs",
				 project);
	r = state_dir_default(&state, err);
	if (r < 0)
		return r;
	if (work_path_contains(project, state) || work_path_below(project, state))
		return error_set(err, EINVAL,
				 "project '%s': Warren's own files are there ('%s')",
				 project, state);
	*ret = TAKE_PTR(project);
	return 0;
}

static void work_say_mounts(const char *project)
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	char text[8192];
	struct mntent m;

	while (f && getmntent_r(f, &m, text, sizeof(text)))
		if (strcmp(m.mnt_dir, project) != 0 &&
		    work_path_below(m.mnt_dir, project))
			message_say("work",
				    "what is mounted at '%s' is not visible inside; add "
				    "-v to mount it",
				    m.mnt_dir);
	if (f)
		(void)endmntent(f);
}

static void work_say_git(const char *project)
{
	AUTO_CLOSE int dir = open(project, O_PATH | O_DIRECTORY | O_CLOEXEC);
	AUTO_CLOSE int fd =
		openat(dir, ".git", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	AUTO_FREE char *top = NULL;
	char text[4096];
	struct stat st;
	ssize_t n;

	if (fd < 0 && git_top(project, &top) > 0)
		message_say("work",
			    "git does not work inside: the project is a part of the "
			    "repository at '%s', which the command does not see; use "
			    "that directory as the project if it needs git",
			    top);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	n = read(fd, text, sizeof(text) - 1);
	if (n <= 8 || strncmp(text, "gitdir: ", 8) != 0)
		return;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	message_say("work",
		    "git does not work inside: this is a worktree or submodule, and its "
		    "repository '%s' is not part of the project",
		    text + 8);
}

void work_project_say(const char *project, bool mounts_hidden)
{
	if (mounts_hidden)
		work_say_mounts(project);
	work_say_git(project);
}
