/* SPDX-License-Identifier: Apache-2.0 */
/* git_head.c - the commit that a repository is at, without running git */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hex.h"
#include "work/files_internal.h"
#include "work/work_internal.h"

#define GIT_FILE_MAX   ((size_t)64 << 20) /* packed-refs */
#define GIT_CONFIG_MAX ((size_t)1 << 20)

bool git_is_id(const char *text)
{
	return hex_is(text, 40) || hex_is(text, 64);
}

static char *git_trim(char *text)
{
	size_t n = strlen(text);

	while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == ' '))
		text[--n] = '\0';
	return text;
}

/* Lines are "<id> <name>"; others begin with '#' or '^'. */
static int git_packed_ref(int dir, const char *name, char **ret)
{
	AUTO_FREE char *text = NULL;
	char *save = NULL;
	size_t n;
	int r = work_file_read_at(dir, "packed-refs", GIT_FILE_MAX, &text, &n);

	for (char *line = r == 0 ? strtok_r(text, "\n", &save) : NULL; line;
	     line = strtok_r(NULL, "\n", &save)) {
		char *space = strchr(line, ' ');

		if (!space || strcmp(space + 1, name) != 0)
			continue;
		*space = '\0';
		if (!git_is_id(line))
			return -EBADMSG;
		*ret = strdup(line);
		return *ret ? 0 : -ENOMEM;
	}
	return r < 0 ? r : -ENOENT;
}

int git_ref(int dir, const char *name, char **ret)
{
	AUTO_FREE char *text = NULL;
	size_t n;
	int r = work_file_read_at(dir, name, 4096, &text, &n);

	if (r < 0)
		return git_packed_ref(dir, name, ret);
	if (!git_is_id(git_trim(text)))
		return -EBADMSG;
	*ret = TAKE_PTR(text);
	return 0;
}

/* Does a path that a file of @dir has lead to the file @is? */
static bool git_leads_to(int dir, const char *path, const struct stat *is)
{
	AUTO_CLOSE int fd = openat(dir, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == is->st_dev &&
	       st.st_ino == is->st_ino;
}

/*
 * A file `.git` of the project may name any directory. The git directory of a worktree
 * has a file that refers back to it, and that of a submodule a setting.
 */
static bool git_dir_refers_back(int dir, int project)
{
	AUTO_FREE char *text = NULL, *config = NULL;
	char *save = NULL;
	struct stat st;
	size_t n;

	if (work_file_read_at(dir, "gitdir", 4096, &text, &n) == 0)
		return fstatat(project, ".git", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		       git_leads_to(dir, git_trim(text), &st);
	if (fstat(project, &st) < 0 ||
	    work_file_read_at(dir, "config", GIT_CONFIG_MAX, &config, &n) < 0)
		return false;
	for (char *line = strtok_r(config, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		line += strspn(line, " \t");
		if (strncmp(line, "worktree = ", 11) == 0)
			return git_leads_to(dir, git_trim(line + 11), &st);
	}
	return false;
}

/*
 * The directory of a repository; in a worktree, a file says where it is, and then
 * *@ret_linked is set.
 */
static int git_dir_open(int project, bool *ret_linked)
{
	AUTO_FREE char *text = NULL;
	size_t n;
	int dir = beneath_dir(project, ".git", O_PATH);

	if (dir >= 0 || work_file_read_at(project, ".git", 4096, &text, &n) < 0 ||
	    strncmp(text, "gitdir: ", 8) != 0)
		return dir;
	dir = openat(project, git_trim(text + 8), O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	if (!git_dir_refers_back(dir, project)) {
		(void)close(dir);
		return -EPERM;
	}
	*ret_linked = true;
	return dir;
}

/* Where the branches are: in a worktree, in the main repository, as git writes it. */
static int git_common_open(int dir, bool linked)
{
	AUTO_FREE char *text = NULL;
	size_t n;
	int common;

	if (!linked || work_file_read_at(dir, "commondir", 4096, &text, &n) < 0)
		return fcntl(dir, F_DUPFD_CLOEXEC, 3);
	if (strcmp(git_trim(text), "../..") != 0)
		return -EPERM;
	common = openat(dir, text, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return common < 0 ? -errno : common;
}

int git_head(int project, char **ret)
{
	bool linked = false;
	AUTO_CLOSE int dir = git_dir_open(project, &linked);
	AUTO_CLOSE int common = dir < 0 ? -1 : git_common_open(dir, linked);
	AUTO_FREE char *text = NULL;
	size_t n;
	int r;

	*ret = NULL;
	if (common < 0 || work_file_read_at(dir, "HEAD", 4096, &text, &n) < 0)
		return 0;
	git_trim(text);
	if (git_is_id(text)) {
		*ret = TAKE_PTR(text);
		return 0;
	}
	if (strncmp(text, "ref: refs/", 10) != 0)
		return 0;
	r = git_ref(common, text + 5, ret);
	return r == -ENOMEM ? r : 0;
}
