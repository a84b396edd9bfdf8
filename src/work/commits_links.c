/* SPDX-License-Identifier: Apache-2.0 */
/*
 * commits_links.c - git must write only to the repository of the project
 *
 * The repository may come from an attacker: git follows links in it, and the file
 * `commondir` and a reference to another one lead it elsewhere, too. So nothing of what
 * it writes for a new branch may be one. git appends to a log that exists even if it
 * keeps no logs, and the name that it writes there is that of the repository's
 * configuration.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "work/commits_internal.h"
#include "work/files_internal.h"
#include "work/work_internal.h"

#define LINKS_REF_MAX  4096
#define LINKS_PATH_MAX 512

/* Below .git; with %s, the name of the branch comes there. Parents are checked, too. */
static const char *const links_written[] = {
	"objects/pack",
	"objects/info",
	"packed-refs",
	"packed-refs.lock",
	"refs/heads/%s",
	"refs/heads/%s.lock",
	"logs/HEAD",
	"logs/refs/heads/%s",
	"logs/refs/heads/%s.lock",
	"HEAD",
	"HEAD.lock",
	"shallow",
	"reftable/tables.list",
	"reftable/tables.list.lock",
};

static int links_refuse(const char *path, const char *why, struct warren_error *err)
{
	return error_set(err, EPERM,
			 "'.git/%s' %s, so git could change something outside the "
			 "project: no commits were accepted",
			 path, why);
}

static int links_check(int git, const char *path, struct warren_error *err)
{
	struct stat st;
	int r = beneath_stat(git, path, &st);

	if (r == -ELOOP || r == -EXDEV || (r == 0 && S_ISLNK(st.st_mode)))
		return links_refuse(path, "is a link, or in a directory that is one",
				    err);
	/* Even if the directory is a link. */
	if (r == -ENOTDIR)
		return links_refuse(path, "is below something that is not a directory",
				    err);
	return r < 0 && r != -ENOENT ? error_errno(err, -r, "check '.git/%s'", path) : 0;
}

/* The path of the file @i in the table, for the branch. */
static void links_path(size_t i, const char *branch, char path[LINKS_PATH_MAX])
{
	const char *mark = strstr(links_written[i], "%s");

	(void)snprintf(path, LINKS_PATH_MAX, "%.*s%s%s",
		       mark ? (int)(mark - links_written[i])
			    : (int)strlen(links_written[i]),
		       links_written[i], mark ? branch : "", mark ? mark + 2 : "");
}

/* Is there a branch with the name of the directory of @branch? git allows only one. */
static int links_check_branches(int git, const char *branch, struct warren_error *err)
{
	AUTO_FREE char *name = strndup(branch, strcspn(branch, "/")), *commit = NULL;
	char path[LINKS_PATH_MAX];
	struct stat st;

	if (!name)
		return error_errno(err, ENOMEM, "check the branches");
	(void)snprintf(path, sizeof(path), "refs/heads/%s", name);
	if (beneath_stat(git, path, &st) == 0 ? !S_ISREG(st.st_mode)
					      : git_ref(git, path, &commit) < 0)
		return 0;
	return error_set(err, EEXIST,
			 "the branch '%s' exists, so git cannot create a branch '%s': "
			 "rename yours first ('git branch -m %s NEW-NAME')",
			 name, branch, name);
}

int commits_check_links(const struct work *w, const char *branch,
			struct warren_error *err)
{
	AUTO_CLOSE int git = beneath_dir(w->project_fd, ".git", O_PATH);
	AUTO_FREE char *ref = NULL;
	char path[LINKS_PATH_MAX];
	struct stat st;
	size_t n;
	int r;

	if (git < 0)
		return error_errno(err, -git, "open '.git'");
	if (beneath_stat(git, "commondir", &st) == 0)
		return links_refuse("commondir", "names another repository", err);
	r = links_check_branches(git, branch, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_SIZE(links_written); i++) {
		links_path(i, branch, path);
		r = links_check(git, path, err);
		if (r < 0)
			return r;
	}
	(void)snprintf(path, sizeof(path), "refs/heads/%s", branch);
	if (work_file_read_at(git, path, LINKS_REF_MAX, &ref, &n) == 0 &&
	    strncmp(ref, "ref:", 4) == 0)
		return links_refuse(path, "refers to another branch", err);
	return 0;
}

int commits_find_lock(const struct work *w, const char *branch, struct warren_error *err)
{
	AUTO_CLOSE int git = beneath_dir(w->project_fd, ".git", O_PATH);
	char path[LINKS_PATH_MAX];
	struct stat st;

	for (size_t i = 0; git >= 0 && i < ARRAY_SIZE(links_written); i++) {
		size_t n;

		links_path(i, branch, path);
		n = strlen(path);
		if (n > 5 && strcmp(path + n - 5, ".lock") == 0 &&
		    beneath_stat(git, path, &st) == 0)
			return error_set(err, EBUSY,
					 "'.git/%s' exists: another git is changing the "
					 "repository, or was killed; if none is running, "
					 "remove this file and try again",
					 path);
	}
	return -EPROTO;
}
