/* SPDX-License-Identifier: Apache-2.0 */
/*
 * instructions.c - files of a setup that agents and editors take as instructions
 *
 * The table names them once: those in the project, which prune.c removes from the changes
 * to it, and those elsewhere, which setup_prune_root() removes from the changes to the
 * root. A program that a step installs is used anyway, so this does not confine a hostile
 * step. It keeps text that a dependency brings along from being read with the authority
 * of the user.
 *
 * Homes are found by where they are, not by the accounts of the image, because a step may
 * change those: every directory near the root may be one, the directories in /home, and
 * what HOME and /etc/passwd name. Links are followed within the layer only.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strv.h"
#include "os/tree_remove.h"
#include "setup/plan.h"
#include "setup/store.h"
#include "setup/tree.h"

#define HOME_DEPTH_MAX   3 /* /var/lib/NAME */
#define INSTRUCTIONS_MAX 1000

enum instructions_where {
	IN_PROJECT = 1, /* in the project, and in directories above it */
	IN_HOME = 2,    /* in the home of any user */
	IN_MACHINE = 4, /* in .below, which begins with "/" */
	KEPT = 8,       /* often changed by installations: it is only named */
};

/* Without regard to case, as some file systems compare names. */
static const struct {
	const char *name; /* a pattern */
	unsigned where;
	const char *below; /* the directory in a home, or of the machine; NULL: itself */
} instructions[] = {
	/* Instructions, settings, commands and servers of agents. */
	{ "AGENT*.md", IN_PROJECT | IN_HOME, NULL },
	{ "CLAUDE*.md", IN_PROJECT | IN_HOME, NULL },
	{ "GEMINI*.md", IN_PROJECT | IN_HOME, NULL },
	{ "QWEN*.md", IN_PROJECT | IN_HOME, NULL },
	{ "CRUSH*.md", IN_PROJECT | IN_HOME, NULL },
	{ "WARP*.md", IN_PROJECT | IN_HOME, NULL },
	{ "CONVENTIONS*.md", IN_PROJECT, NULL }, /* aider */
	{ ".agent*", IN_PROJECT | IN_HOME, NULL },
	{ ".aider*", IN_PROJECT | IN_HOME, NULL },
	{ ".amazonq", IN_PROJECT | IN_HOME, NULL },
	{ ".amp", IN_PROJECT | IN_HOME, NULL },
	{ ".augment*", IN_PROJECT | IN_HOME, NULL },
	{ ".claude*", IN_PROJECT | IN_HOME, NULL },
	{ ".cline*", IN_PROJECT | IN_HOME, NULL },
	{ ".codeium", IN_PROJECT | IN_HOME, NULL },
	{ ".codex*", IN_PROJECT | IN_HOME, NULL },
	{ ".continue*", IN_PROJECT | IN_HOME, NULL },
	{ ".copilot", IN_PROJECT | IN_HOME, NULL },
	{ ".crush*", IN_PROJECT | IN_HOME, NULL },
	{ ".cursor*", IN_PROJECT | IN_HOME, NULL },
	{ ".factory", IN_PROJECT | IN_HOME, NULL },
	{ ".gemini*", IN_PROJECT | IN_HOME, NULL },
	{ ".goose*", IN_PROJECT | IN_HOME, NULL },
	{ ".junie*", IN_PROJECT | IN_HOME, NULL },
	{ ".kilocode*", IN_PROJECT | IN_HOME, NULL },
	{ ".kiro", IN_PROJECT | IN_HOME, NULL },
	{ ".mcp.json", IN_PROJECT | IN_HOME, NULL },
	{ ".opencode*", IN_PROJECT | IN_HOME, NULL },
	{ ".openhands*", IN_PROJECT | IN_HOME, NULL },
	{ ".qwen*", IN_PROJECT | IN_HOME, NULL },
	{ ".roo*", IN_PROJECT | IN_HOME, NULL },
	{ ".rules", IN_PROJECT, NULL }, /* zed */
	{ ".trae", IN_PROJECT | IN_HOME, NULL },
	{ ".windsurf*", IN_PROJECT | IN_HOME, NULL },
	{ "crush.json", IN_PROJECT, NULL },
	{ "opencode.json*", IN_PROJECT, NULL },
	{ "agents", IN_HOME, ".config" },
	{ "amp", IN_HOME, ".config" },
	{ "claude*", IN_HOME, ".config" },
	{ "crush", IN_HOME, ".config" },
	{ "cursor*", IN_HOME, ".config" },
	{ "github-copilot", IN_HOME, ".config" },
	{ "goose", IN_HOME, ".config" },
	{ "opencode", IN_HOME, ".config" },
	{ "amazonq", IN_HOME, ".aws" },
	{ "claude-code", IN_MACHINE, "/etc" },
	{ "codex", IN_MACHINE, "/etc" },
	{ "crush", IN_MACHINE, "/etc" },
	{ "gemini-cli", IN_MACHINE, "/etc" },
	{ "opencode", IN_MACHINE, "/etc" },
	/* Settings of editors and services, which start programs. */
	{ ".devcontainer*", IN_PROJECT, NULL },
	{ ".envrc", IN_PROJECT | IN_HOME, NULL },
	{ ".github", IN_PROJECT, NULL },
	{ ".idea", IN_PROJECT, NULL },
	{ ".vscode", IN_PROJECT, NULL },
	{ ".zed", IN_PROJECT, NULL },
	{ "warren.yaml", IN_PROJECT, NULL },
	/* A repository, and what it shows and ignores. */
	{ ".git", IN_PROJECT, NULL },
	{ ".gitattributes", IN_PROJECT, NULL },
	{ ".gitignore", IN_PROJECT, NULL },
	{ ".gitmodules", IN_PROJECT, NULL },
	/* It is loaded into every program. */
	{ "ld.so.preload", IN_MACHINE, "/etc" },
	/* Shells and git read them, and installations add their directories and filters.
	 */
	{ ".bash*", IN_HOME | KEPT, NULL },
	{ ".profile", IN_HOME | KEPT, NULL },
	{ ".zlogin", IN_HOME | KEPT, NULL },
	{ ".zprofile", IN_HOME | KEPT, NULL },
	{ ".zshenv", IN_HOME | KEPT, NULL },
	{ ".zshrc", IN_HOME | KEPT, NULL },
	{ "fish", IN_HOME | KEPT, ".config" },
	{ ".gitconfig", IN_HOME | KEPT, NULL },
	{ "git", IN_HOME | KEPT, ".config" },
	{ "bash.bashrc", IN_MACHINE | KEPT, "/etc" },
	{ "bashrc", IN_MACHINE | KEPT, "/etc" },
	{ "environment", IN_MACHINE | KEPT, "/etc" },
	{ "gitconfig", IN_MACHINE | KEPT, "/etc" },
	{ "profile", IN_MACHINE | KEPT, "/etc" },
};

/* The row for a name, or -1. */
static int instructions_find(const char *name, unsigned where, const char *below)
{
	for (size_t i = 0; i < ARRAY_SIZE(instructions); i++)
		if ((instructions[i].where & where) &&
		    strcmp(instructions[i].below ? instructions[i].below : "", below) ==
			    0 &&
		    fnmatch(instructions[i].name, name, FNM_CASEFOLD) == 0)
			return (int)i;
	return -1;
}

bool setup_is_instruction(const char *name)
{
	return instructions_find(name, IN_PROJECT, "") >= 0;
}

/* -------------------------------------------------------------------- the root */

struct instructions_walk {
	int upper;
	struct setup_pruned *found;
};

/* Open a directory as a program in the sandbox would; -ENOENT: the layer has none. */
static int instructions_open(const struct instructions_walk *k, const char *path)
{
	struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	int fd = (int)syscall(SYS_openat2, k->upper, path, &how, sizeof(how));

	return fd >= 0 ? fd : errno == ENOTDIR || errno == ELOOP ? -ENOENT : -errno;
}

/* A directory that denies access to its owner does not deny it to root in a sandbox. */
static int instructions_enter(int dir, const char *name, mode_t *ret_mode)
{
	struct stat st;
	int fd;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	*ret_mode = st.st_mode & 07777;
	if ((st.st_mode & S_IRWXU) != S_IRWXU && geteuid() != 0 &&
	    fchmodat(dir, name, *ret_mode | S_IRWXU, 0) < 0)
		return -errno;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -errno : fd;
}

static int instructions_note(char ***list, const char *path, const char *name)
{
	const char *slash = path[0] && path[strlen(path) - 1] == '/' ? "" : "/";
	AUTO_FREE char *all = NULL;

	if (strv_len((union strv){ .list = *list }) >= INSTRUCTIONS_MAX)
		return 0;
	if (asprintf(&all, "%s%s%s", path, slash, name) < 0)
		all = NULL;
	for (char **v = *list; all && v && *v; v++)
		if (strcmp(*v, all) == 0)
			return 0;
	return all ? strv_add(list, all) : -ENOMEM;
}

/* Remove or note the entries of a directory that rows of the table name. */
static int instructions_match(const struct instructions_walk *k, int dir,
			      const char *path, unsigned where, const char *below)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct dirent *e;
	DIR *d;
	int r = setup_tree_list(fd < 0 ? -errno : fd, &d);

	if (r < 0)
		return r;
	while (r == 0 && (e = readdir(d))) {
		int row = strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0
				  ? instructions_find(e->d_name, where, below)
				  : -1;
		bool kept = row >= 0 && (instructions[row].where & KEPT);

		if (row < 0)
			continue;
		r = kept ? 0 : tree_remove(k->upper, dir, e->d_name);
		if (r == 0)
			r = instructions_note(kept ? &k->found->changed
						   : &k->found->added,
					      path, e->d_name);
	}
	(void)closedir(d);
	return r;
}

/* Look for what is in a home at @path, which is open as @dir. */
static int instructions_home(const struct instructions_walk *k, int dir, const char *path)
{
	int r = instructions_match(k, dir, path, IN_HOME, "");

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(instructions); i++) {
		const char *below = instructions[i].below;
		AUTO_FREE char *sub = NULL;
		AUTO_CLOSE int fd = -1;

		/* Rows of the same directory are next to each other, or it is read again.
		 */
		if (!(instructions[i].where & IN_HOME) || !below ||
		    (i > 0 && instructions[i - 1].below &&
		     strcmp(instructions[i - 1].below, below) == 0))
			continue;
		if (asprintf(&sub, "%s/%s", path, below) < 0) {
			sub = NULL;
			return -ENOMEM;
		}
		fd = instructions_open(k, sub);
		if (fd >= 0)
			r = instructions_match(k, fd, sub, IN_HOME, below);
		else if (fd != -ENOENT)
			r = fd;
	}
	return r;
}

/* Every directory near the root may be a home. */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as HOME_DEPTH_MAX */
static int instructions_near(const struct instructions_walk *k, int dir, const char *path,
			     unsigned depth)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct dirent *e;
	DIR *d;
	int r = setup_tree_list(fd < 0 ? -errno : fd, &d);

	if (r < 0)
		return r;
	r = instructions_home(k, dir, path);
	while (r == 0 && depth < HOME_DEPTH_MAX && (e = readdir(d))) {
		AUTO_FREE char *sub = NULL;
		AUTO_CLOSE int below = -1;
		mode_t mode = 0;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		    (e->d_type != DT_DIR && e->d_type != DT_UNKNOWN))
			continue;
		below = instructions_enter(dir, e->d_name, &mode);
		if (below == -ENOTDIR || below == -ENOENT)
			continue;
		if (below < 0 || asprintf(&sub, "%s/%s", path, e->d_name) < 0) {
			r = below < 0 ? below : -ENOMEM;
			sub = NULL;
			break;
		}
		r = instructions_near(k, below, sub, depth + 1);
		if (fchmod(below, mode) < 0 && r == 0)
			r = -errno;
	}
	(void)closedir(d);
	return r;
}

/* The directory at @path, wherever it is, if the layer has it. */
static int instructions_at(const struct instructions_walk *k, const char *path,
			   unsigned where, const char *below)
{
	AUTO_CLOSE int fd = path[0] == '/' ? instructions_open(k, path) : -ENOENT;

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	return where == IN_HOME ? instructions_home(k, fd, path)
				: instructions_match(k, fd, path, where, below);
}

static int instructions_accounts(const struct instructions_walk *k)
{
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	AUTO_FREE char *text = calloc(1, SETUP_TEXT_MAX + 1);
	AUTO_CLOSE int fd =
		(int)syscall(SYS_openat2, k->upper, "/etc/passwd", &how, sizeof(how));
	struct stat st;
	char *save = NULL;
	int r = text ? 0 : -ENOMEM;

	if (r < 0 || fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    fd_read_all(fd, text, SETUP_TEXT_MAX) < 0)
		return r;
	for (char *line = strtok_r(text, "\n", &save); r == 0 && line;
	     line = strtok_r(NULL, "\n", &save)) {
		for (int i = 0; line && i < 5; i++) {
			line = strchr(line, ':');
			line += line != NULL;
		}
		if (!line)
			continue;
		line[strcspn(line, ":")] = '\0';
		r = instructions_at(k, line, IN_HOME, "");
	}
	return r;
}

/* Agents look in the directories above the project, too. */
static int instructions_above(const struct instructions_walk *k, const char *workdir)
{
	AUTO_FREE char *path = strdup(workdir);
	int r = path ? instructions_at(k, "/", IN_PROJECT, "") : -ENOMEM;

	for (char *slash = path ? strrchr(path, '/') : NULL;
	     r == 0 && slash && slash > path; slash = strrchr(path, '/')) {
		*slash = '\0';
		r = instructions_at(k, path, IN_PROJECT, "");
	}
	return r;
}

static int instructions_all(const struct instructions_walk *k, const char *workdir,
			    char *const *env)
{
	int r = instructions_near(k, k->upper, "", 0);

	for (; r == 0 && env && *env; env++)
		if (strncmp(*env, "HOME=", 5) == 0)
			r = instructions_at(k, *env + 5, IN_HOME, "");
	if (r == 0)
		r = instructions_at(k, "/root", IN_HOME, "");
	if (r == 0)
		r = instructions_accounts(k);
	if (r == 0)
		r = instructions_at(k, "/etc", IN_MACHINE, "/etc");
	return r == 0 ? instructions_above(k, workdir) : r;
}

int setup_prune_root(int upper, const char *workdir, char *const *env,
		     struct setup_pruned *ret, struct warren_error *err)
{
	struct setup_pruned found = { 0 };
	const struct instructions_walk k = { .upper = upper, .found = &found };
	int r = instructions_all(&k, workdir, env);

	if (r < 0) {
		setup_pruned_done(&found);
		return error_errno(err, -r, "inspect what the setup wrote");
	}
	*ret = found;
	return 0;
}
