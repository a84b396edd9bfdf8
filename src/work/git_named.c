/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git_named.c - read git's configuration for the files of the project that it names
 *
 * With core.hooksPath = .husky, or include.path = ../.gitconfig, files of the project are
 * what .git/hooks and .git/config are elsewhere. The words of each value that is a
 * command count as paths, too: "sh tools/clean.sh" executes tools/clean.sh. That is more
 * than git executes, which does no harm: such a change needs permission.
 */
#include "work/git_named.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macro.h"
#include "base/strv.h"
#include "work/files_internal.h"

#define NAMED_CONFIG_MAX ((size_t)1 << 20) /* bytes of a file */
#define NAMED_FILES_MAX  64
#define NAMED_MAX        4096 /* paths */
#define NAMED_DEPTH_MAX  10   /* of includes, as in git */
#define NAMED_ABOVE_MAX  64   /* directories above the project */

enum named_kind {
	NAMED_INCLUDE, /* a file of configuration, relative to the one that names it */
	NAMED_PATH,    /* relative to the top of the worktree */
	NAMED_COMMAND, /* words for the shell, which runs there */
};

/* Keys whose values git executes, or reads configuration from. NULL: all keys. */
static const struct {
	const char *section, *key;
	enum named_kind kind;
} named_keys[] = {
	{ "include", "path", NAMED_INCLUDE },
	{ "includeif", "path", NAMED_INCLUDE },
	{ "core", "hookspath", NAMED_PATH },
	{ "init", "templatedir", NAMED_PATH },
	{ "core", "attributesfile", NAMED_PATH },
	{ "core", "fsmonitor", NAMED_COMMAND },
	{ "core", "sshcommand", NAMED_COMMAND },
	{ "core", "gitproxy", NAMED_COMMAND },
	{ "core", "askpass", NAMED_COMMAND },
	{ "core", "editor", NAMED_COMMAND },
	{ "core", "pager", NAMED_COMMAND },
	{ "core", "alternaterefscommand", NAMED_COMMAND },
	{ "sequence", "editor", NAMED_COMMAND },
	{ "interactive", "difffilter", NAMED_COMMAND },
	{ "filter", NULL, NAMED_COMMAND },
	{ "diff", NULL, NAMED_COMMAND },
	{ "merge", NULL, NAMED_COMMAND },
	{ "difftool", NULL, NAMED_COMMAND },
	{ "mergetool", NULL, NAMED_COMMAND },
	{ "alias", NULL, NAMED_COMMAND },
	{ "pager", NULL, NAMED_COMMAND },
	{ "gpg", NULL, NAMED_COMMAND },
	{ "hook", NULL, NAMED_COMMAND },
	{ "trailer", NULL, NAMED_COMMAND },
	{ "credential", "helper", NAMED_COMMAND },
	{ "remote", "uploadpack", NAMED_COMMAND },
	{ "remote", "receivepack", NAMED_COMMAND },
	{ "submodule", "update", NAMED_COMMAND },
	{ "uploadpack", "packobjectshook", NAMED_COMMAND },
	{ "browser", NULL, NAMED_COMMAND },
	{ "man", NULL, NAMED_COMMAND },
	{ "tar", NULL, NAMED_COMMAND },
	{ "guitool", NULL, NAMED_COMMAND },
	{ "sendemail", NULL, NAMED_COMMAND },
};

struct named_search {
	const char *project;
	char top[PATH_MAX]; /* of the worktree */
	struct git_named out;
	unsigned files, depth;
	bool failed; /* out of memory */
};

static void named_config(struct named_search *s, const char *path);

/* ------------------------------------------------------------------------ paths */

/* Make @path, relative to the absolute @base, absolute, without ".", ".." and "//". */
static bool named_resolve(const char *base, const char *path, char ret[PATH_MAX])
{
	const char *home = getenv("HOME");
	char all[2 * PATH_MAX], *save = NULL;
	size_t n = 0;
	int len;

	if (path[0] == '~' && path[1] == '/' && home)
		len = snprintf(all, sizeof(all), "%s/%s", home, path + 2);
	else if (path[0] == '/')
		len = snprintf(all, sizeof(all), "%s", path);
	else
		len = snprintf(all, sizeof(all), "%s/%s", base, path);
	if (len < 0 || (size_t)len >= sizeof(all))
		return false;
	for (char *part = strtok_r(all, "/", &save); part;
	     part = strtok_r(NULL, "/", &save)) {
		size_t size = strlen(part);

		if (strcmp(part, ".") == 0)
			continue;
		if (strcmp(part, "..") == 0) {
			while (n > 0 && ret[--n] != '/')
				;
			continue;
		}
		if (n + 1 + size >= PATH_MAX)
			return false;
		ret[n++] = '/';
		(void)memcpy(ret + n, part, size);
		n += size;
	}
	ret[n] = '\0';
	return n > 0;
}

static void named_note(struct named_search *s, const char *absolute)
{
	size_t n = strlen(s->project);

	if (strncmp(absolute, s->project, n) != 0 || absolute[n] != '/' ||
	    s->out.n >= NAMED_MAX)
		return;
	for (size_t i = 0; i < s->out.n; i++)
		if (strcmp(s->out.paths[i], absolute + n + 1) == 0)
			return;
	if (strv_add(&s->out.paths, absolute + n + 1) < 0)
		s->failed = true;
	else
		s->out.n++;
}

/* What the path is if links lead somewhere else; its last parts may not exist. */
static void named_note_real(struct named_search *s, const char *absolute)
{
	char above[PATH_MAX], all[2 * PATH_MAX];

	(void)snprintf(above, sizeof(above), "%s", absolute);
	for (char *end = above + strlen(above); end; end = strrchr(above, '/')) {
		AUTO_FREE char *real = NULL;

		*end = '\0';
		if (end == above)
			return;
		real = realpath(above, NULL);
		if (!real)
			continue;
		(void)snprintf(all, sizeof(all), "%s%s", real, absolute + (end - above));
		named_note(s, all);
		return;
	}
}

static void named_add(struct named_search *s, const char *base, const char *path)
{
	char absolute[PATH_MAX];
	size_t n;

	if (!named_resolve(base, path, absolute))
		return;
	named_note(s, absolute);
	named_note_real(s, absolute);
	/* Husky's hooks in .husky/_ run the scripts in .husky. */
	n = strlen(absolute);
	if (n > 2 && strcmp(absolute + n - 2, "/_") == 0) {
		absolute[n - 2] = '\0';
		named_note(s, absolute);
	}
}

static void named_add_words(struct named_search *s, char *value)
{
	char *save = NULL;

	for (char *word = strtok_r(value, " \t\n\"'`;|&()<>=!$", &save); word;
	     word = strtok_r(NULL, " \t\n\"'`;|&()<>=!$", &save))
		named_add(s, s->top, word);
}

/* ----------------------------------------------------------------------- parser */

/* NOLINTNEXTLINE(misc-no-recursion): as deep as NAMED_DEPTH_MAX */
static void named_value(struct named_search *s, const char *file, const char *section,
			const char *key, char *value)
{
	char dir[PATH_MAX], absolute[PATH_MAX];
	char *slash;

	for (size_t i = 0; i < ARRAY_SIZE(named_keys); i++) {
		if (strcasecmp(section, named_keys[i].section) != 0 ||
		    (named_keys[i].key && strcasecmp(key, named_keys[i].key) != 0))
			continue;
		if (named_keys[i].kind == NAMED_COMMAND) {
			named_add_words(s, value);
		} else if (named_keys[i].kind == NAMED_PATH) {
			named_add(s, s->top, value);
		} else {
			(void)snprintf(dir, sizeof(dir), "%s", file);
			slash = strrchr(dir, '/');
			if (slash)
				*slash = '\0';
			named_add(s, dir, value);
			if (named_resolve(dir, value, absolute))
				named_config(s, absolute);
		}
		return;
	}
}

/* Copy a name up to a character that it cannot have; returns what follows. */
static const char *named_word(const char *at, char *ret, size_t size)
{
	size_t n = 0;

	for (; isalnum((unsigned char)*at) || *at == '-' || *at == '.'; at++)
		if (n + 1 < size)
			ret[n++] = *at;
	ret[n] = '\0';
	return at;
}

/* "[section "sub"]": only the section is kept; returns what follows. */
static const char *named_section(const char *at, char *ret, size_t size)
{
	bool quoted = false;
	char *dot;

	at = named_word(at, ret, size);
	dot = strchr(ret, '.'); /* the old form, [section.sub] */
	if (dot)
		*dot = '\0';
	for (; *at && *at != '\n' && (quoted || *at != ']'); at++) {
		if (*at == '"')
			quoted = !quoted;
		else if (*at == '\\' && at[1])
			at++;
	}
	return *at == ']' ? at + 1 : at;
}

/* A value, without quotes, escapes and comments; returns what follows. */
static const char *named_text(const char *at, char *ret, size_t size)
{
	bool quoted = false;
	size_t n = 0, end = 0;

	while (*at == ' ' || *at == '\t')
		at++;
	for (; *at && (*at != '\n'); at++) {
		char c = *at;

		if (c == '"') {
			quoted = !quoted;
			end = n;
			continue;
		}
		if (!quoted && (c == '#' || c == ';'))
			break;
		if (c == '\\' && at[1]) {
			c = *++at;
			if (c == '\n')
				continue;
			if (c == 'n')
				c = '\n';
			else if (c == 't')
				c = '\t';
			end = n + 1;
		}
		if (n + 1 >= size)
			continue;
		ret[n++] = c;
		if (quoted || !isspace((unsigned char)c))
			end = n;
	}
	ret[end < n ? end : n] = '\0';
	while (*at && *at != '\n')
		at++;
	return at;
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as NAMED_DEPTH_MAX */
static void named_parse(struct named_search *s, const char *file, const char *at)
{
	char section[64] = "", key[64], *value = malloc(PATH_MAX * 2);

	if (!value)
		s->failed = true;
	while (value && *at) {
		if (isspace((unsigned char)*at)) {
			at++;
		} else if (*at == '[') {
			at = named_section(at + 1, section, sizeof(section));
		} else if (isalpha((unsigned char)*at)) {
			at = named_word(at, key, sizeof(key));
			while (*at == ' ' || *at == '\t')
				at++;
			if (*at != '=')
				continue;
			at = named_text(at + 1, value, (size_t)PATH_MAX * 2);
			named_value(s, file, section, key, value);
		} else {
			at += strcspn(at, "\n");
		}
	}
	free(value);
}

static char *named_slurp(const char *path)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	AUTO_FREE char *text = NULL;
	struct stat st;
	size_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    work_file_read(fd, NAMED_CONFIG_MAX, &text, &n) < 0)
		return NULL;
	return TAKE_PTR(text);
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as NAMED_DEPTH_MAX */
static void named_config(struct named_search *s, const char *path)
{
	AUTO_FREE char *text = NULL;

	if (s->depth >= NAMED_DEPTH_MAX || s->files >= NAMED_FILES_MAX)
		return;
	s->files++;
	s->depth++;
	text = named_slurp(path);
	if (text)
		named_parse(s, path, text);
	s->depth--;
}

/* ---------------------------------------------------------------------- sources */

static void named_config_in(struct named_search *s, const char *dir, const char *name)
{
	char path[PATH_MAX];

	if (dir && named_resolve(dir, name, path))
		named_config(s, path);
}

/* ".git" of a worktree or submodule, and "commondir", name another directory. */
static void named_follow(char dir[PATH_MAX], const char *file, const char *prefix)
{
	AUTO_FREE char *text = NULL;
	char path[PATH_MAX], base[PATH_MAX];
	size_t n = strlen(prefix);

	if (!named_resolve(dir, file, path))
		return;
	text = named_slurp(path);
	if (!text || strncmp(text, prefix, n) != 0)
		return;
	text[strcspn(text, "\n")] = '\0';
	(void)strcpy(base, dir);
	if (named_resolve(base, text + n, path))
		(void)strcpy(dir, path);
}

/* The project may be a part of a worktree. */
static void named_repository(struct named_search *s)
{
	char dir[PATH_MAX];
	struct stat st;

	(void)snprintf(s->top, sizeof(s->top), "%s", s->project);
	for (int i = 0; i < NAMED_ABOVE_MAX; i++) {
		char *slash = strrchr(s->top, '/');

		if (!named_resolve(s->top, ".git", dir))
			return;
		if (stat(dir, &st) == 0)
			break;
		if (!slash || slash == s->top) {
			(void)snprintf(s->top, sizeof(s->top), "%s", s->project);
			return;
		}
		*slash = '\0';
	}
	if (S_ISREG(st.st_mode)) {
		(void)strcpy(dir, s->top);
		named_follow(dir, ".git", "gitdir: ");
	}
	named_config_in(s, dir, "config.worktree");
	named_follow(dir, "commondir", "");
	named_config_in(s, dir, "config");
}

int git_named_read(const char *project, struct git_named *ret)
{
	AUTO_FREE struct named_search *s = calloc(1, sizeof(*s));
	const char *home = getenv("HOME"), *xdg = getenv("XDG_CONFIG_HOME");

	if (!s)
		return -ENOMEM;
	s->project = project;
	named_repository(s);
	named_config(s, "/etc/gitconfig");
	named_config_in(s, home, ".gitconfig");
	if (xdg && xdg[0] == '/')
		named_config_in(s, xdg, "git/config");
	else
		named_config_in(s, home, ".config/git/config");
	if (s->failed) {
		git_named_done(&s->out);
		return -ENOMEM;
	}
	*ret = s->out;
	return 0;
}

void git_named_done(struct git_named *n)
{
	(void)strv_free(n->paths);
	*n = (struct git_named){ 0 };
}

bool git_named_has(const struct git_named *n, const char *path, bool is_dir)
{
	size_t len = strlen(path);

	for (size_t i = 0; i < n->n; i++) {
		const char *named = n->paths[i];
		size_t size = strlen(named);

		if (strncasecmp(path, named, size) == 0 &&
		    (path[size] == '\0' || path[size] == '/'))
			return true;
		if (!is_dir && strncasecmp(named, path, len) == 0 && named[len] == '/')
			return true;
	}
	return false;
}
