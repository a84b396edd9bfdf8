/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git_guard.c - which files can make git execute something, and why the others cannot
 *
 * A sandbox can write to the repository and to the files of the project. After an accept,
 * git of the user reads them, often automatically (a prompt, an editor). So a change that
 * decides what git executes needs --allow git:
 *
 * - Everything in a git directory, whatever its name. The table says which of these files
 *   are listed one by one, because they act; the others are only counted.
 * - Everything that makes a directory a repository (guard_is_dotgit(), search_is_bare()),
 *   or a part of one (guard_is_git_link()).
 * - Files of the project that the configuration of the user names, or links in git's
 *   directories lead to (git_named.c). If a command in the configuration cannot be
 *   understood, any program or script of the project may be what it names
 *   (guard_is_program()).
 *
 * These files of the project are harmless, although git reads them:
 *
 * - .gitattributes names filters and drivers; the configuration says what they execute.
 * - .gitignore contains patterns.
 * - .mailmap contains names of authors.
 * - .lfsconfig contains only keys that execute nothing: git-lfs takes no others from it.
 * - .git-blame-ignore-revs contains names of commits.
 */
#include <string.h>
#include <strings.h>

#include "base/macro.h"
#include "work/changes_internal.h"
#include "work/files_internal.h"

enum guard_verdict {
	GUARD_ACTS,  /* git executes it, or reads from it what it executes or where it is
		      */
	GUARD_REFS,  /* it says which commits there are; they can be taken as a branch */
	GUARD_QUIET, /* git's own, and has no effect alone */
	GUARD_OTHER, /* git does not know it; it may be the only copy of something */
};

/*
 * Paths in a git directory; "/" at the end: all that is below, and "*": all that begins
 * so. The first match counts.
 */
static const struct {
	const char *path;
	enum guard_verdict verdict;
	const char *why; /* only documentation */
} guard_git_files[] = {
	{ "hooks/", GUARD_ACTS, "executed by commands" },
	{ "config", GUARD_ACTS, "names programs: hooks, filters, pagers, fsmonitor" },
	{ "config.worktree", GUARD_ACTS, "as config, if that turns it on" },
	{ "commondir", GUARD_ACTS, "says where config and hooks are" },
	{ "gitdir", GUARD_ACTS, "the same, from the other side" },
	{ "info/attributes", GUARD_ACTS,
	  "turns on filters and drivers, and takes precedence over .gitattributes" },
	{ "objects/info/alternates", GUARD_ACTS,
	  "reads objects from any directory of the machine" },
	{ "objects/info/http-alternates", GUARD_ACTS, "the same, from any host" },
	{ "HEAD", GUARD_REFS, "" },
	{ "packed-refs", GUARD_REFS, "" },
	{ "refs/", GUARD_REFS, "" },
	{ "reftable/", GUARD_REFS, "" },
	{ "MERGE_AUTOSTASH", GUARD_REFS, "" },
	{ "rebase-merge/autostash", GUARD_REFS, "" },
	{ "rebase-apply/autostash", GUARD_REFS, "" },
	{ "FETCH_HEAD", GUARD_QUIET, "a list for 'git pull', which first writes it" },
	{ "ORIG_HEAD", GUARD_QUIET, "a commit to go back to" },
	{ "logs/", GUARD_QUIET, "where references were; only shown" },
	{ "index", GUARD_QUIET, "contents of the next commit; shown by 'git status'" },
	{ "objects/", GUARD_QUIET, "contents, by their sums" },
	{ "info/", GUARD_QUIET, "patterns, and lists of references" },
	{ "index.*", GUARD_QUIET, "an index that is being written" },
	{ "next-index-*", GUARD_QUIET, "the same" },
	{ "sharedindex.*", GUARD_QUIET, "a part of the index" },
	{ "shallow*", GUARD_QUIET, "where the history ends" },
	{ "packed-refs.*", GUARD_QUIET, "packed-refs that is being written" },
	{ "HEAD.*", GUARD_QUIET, "HEAD that is being written" },
	{ "config*", GUARD_QUIET, "configuration that is being written, and old one" },
	{ "description", GUARD_QUIET, "shown by gitweb" },
	{ "branches/", GUARD_QUIET, "remotes, in the format of long ago" },
	{ "remotes/", GUARD_QUIET, "the same" },
	{ "gc.*", GUARD_QUIET, "git gc" },
	{ "fsmonitor--daemon*", GUARD_QUIET, "the watcher of files" },
	{ "lost-found/", GUARD_QUIET, "git fsck" },
	{ "rr-cache/", GUARD_QUIET, "resolved conflicts" },
	{ "rebase-*", GUARD_QUIET, "a rebase or git am that is not finished" },
	{ "sequencer/", GUARD_QUIET, "the same of cherry-pick and revert" },
	{ "COMMIT_EDITMSG*", GUARD_QUIET, "texts for the editor" },
	{ ".COMMIT_EDITMSG*", GUARD_QUIET, "" },
	{ "EDIT_DESCRIPTION", GUARD_QUIET, "" },
	{ "TAG_EDITMSG", GUARD_QUIET, "" },
	{ "SQUASH_MSG", GUARD_QUIET, "" },
	{ "NOTES_*", GUARD_QUIET, "" },
	{ "ADD_EDIT.patch", GUARD_QUIET, "" },
	{ "addp-hunk-edit.diff", GUARD_QUIET, "" },
	{ "MERGE_*", GUARD_QUIET, "a merge, rebase, ... that is not finished" },
	{ "AUTO_MERGE", GUARD_QUIET, "" },
	{ "CHERRY_PICK_HEAD", GUARD_QUIET, "" },
	{ "REVERT_HEAD", GUARD_QUIET, "" },
	{ "REBASE_HEAD", GUARD_QUIET, "" },
	{ "BISECT_*", GUARD_QUIET, "" },
	{ "lfs/cache/", GUARD_QUIET, "locks that git-lfs asked for" },
	{ "lfs/tmp/", GUARD_QUIET, "downloads of git-lfs" },
	{ "lfs/incomplete/", GUARD_QUIET, "the same" },
	{ "lfs/logs/", GUARD_QUIET, "errors of git-lfs" },
};

/* The repositories of submodules and worktrees, which may be in each other. */
static bool guard_is_nested(const char *path)
{
	return strncasecmp(path, "modules/", 8) == 0 ||
	       strncasecmp(path, "worktrees/", 10) == 0;
}

static bool guard_matches(const char *path, const char *pattern)
{
	size_t n = strlen(pattern);

	if (pattern[n - 1] == '*')
		return strncasecmp(path, pattern, n - 1) == 0;
	return pattern[n - 1] == '/' ? strncasecmp(path, pattern, n) == 0
				     : strcasecmp(path, pattern) == 0;
}

/* Is it a directory of the list, which alone is nothing? */
static bool guard_is_dir(const char *path, const char *pattern)
{
	size_t n = strlen(path);

	return strlen(pattern) == n + 1 && pattern[n] == '/' &&
	       strncasecmp(path, pattern, n) == 0;
}

static enum guard_verdict guard_judge_one(const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(guard_git_files); i++)
		if (guard_is_dir(path, guard_git_files[i].path))
			return GUARD_QUIET;
	for (size_t i = 0; i < ARRAY_SIZE(guard_git_files); i++)
		if (guard_matches(path, guard_git_files[i].path))
			return guard_git_files[i].verdict;
	return GUARD_OTHER;
}

static enum guard_verdict guard_judge(const char *path)
{
	const char *sample = strrchr(path, '.'), *at = path;
	enum guard_verdict verdict, all = GUARD_OTHER;

	/* An example of a hook is not executed under this name. */
	if (sample && strcmp(sample, ".sample") == 0)
		return GUARD_QUIET;
	if (!guard_is_nested(path))
		return guard_judge_one(path);
	/* The name of the nested repository may have any number of parts. */
	while ((at = strchr(at, '/')) != NULL) {
		verdict = guard_judge_one(++at);
		if (verdict == GUARD_ACTS || verdict == GUARD_REFS)
			return verdict;
		all = verdict == GUARD_QUIET ? verdict : all;
	}
	return all;
}

bool guard_git_notable(const char *path)
{
	enum guard_verdict verdict = guard_judge(path);

	return verdict == GUARD_ACTS || verdict == GUARD_OTHER;
}

bool guard_git_refs(const char *path)
{
	return guard_judge(path) == GUARD_REFS;
}

bool guard_is_git_link(const char *name)
{
	static const char *const names[] = {
		"commondir",       /* the rest of a repository is elsewhere */
		"config.worktree", /* its configuration */
		".gitmodules",     /* which repositories are fetched into the project */
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcasecmp(name, names[i]) == 0)
			return true;
	return false;
}

/* How the names of scripts end, and names that programs which build a project look for.
 */
bool guard_is_script_name(const char *name)
{
	static const char *const ends[] = {
		".sh",  ".bash", ".zsh", ".ksh", ".py",  ".pyc", ".pth", ".js",  ".cjs",
		".mjs", ".ts",   ".cts", ".mts", ".pl",  ".pm",  ".rb",  ".php", ".lua",
		".awk", ".sed",  ".tcl", ".ps1", ".vim", ".el",  ".mk",  ".so"
	};
	static const char *const names[] = {
		"makefile",      "gnumakefile",    "package.json", "justfile",
		".justfile",     "rakefile",       "taskfile.yml", "build.rs",
		"cargo.toml",    "pyproject.toml", "build.gradle", "pom.xml",
		"composer.json",
	};
	size_t n = strlen(name);

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (n > strlen(ends[i]) &&
		    strcasecmp(name + n - strlen(ends[i]), ends[i]) == 0)
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcasecmp(name, names[i]) == 0)
			return true;
	return false;
}

bool guard_is_program(int dir, const char *name, const struct stat *st)
{
	AUTO_CLOSE int fd = -1;
	struct stat now;
	char first[2];

	if (S_ISLNK(st->st_mode))
		return true;
	if (!S_ISREG(st->st_mode))
		return false;
	if ((st->st_mode & 0111) || guard_is_script_name(name))
		return true;
	/* "sh name" needs no such mode. */
	fd = beneath_file(dir, name, &now);
	return fd < 0 || (read(fd, first, 2) == 2 && memcmp(first, "#!", 2) == 0);
}
