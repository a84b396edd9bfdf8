/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git_named.c - read git's configuration for the files of the project that it names
 *
 * With core.hooksPath = .husky, or include.path = ../.gitconfig, files of the project are
 * what .git/hooks and .git/config are elsewhere. Nearly every value may name one
 * (git_keys.c), and the words of a command do (git_words.c). That is more than git
 * executes, which does no harm: such a change needs permission. A relative path means
 * another file in each repository, so the configuration of the user is read for each.
 */
#include "work/git_named.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/macro.h"
#include "base/passwd.h"
#include "base/strv.h"
#include "work/files_internal.h"
#include "work/git_config.h"
#include "work/git_keys.h"
#include "work/git_named_internal.h"
#include "work/git_run.h"
#include "work/git_words.h"

#define NAMED_CONFIG_MAX    ((size_t)4 << 20)   /* bytes of a file */
#define NAMED_BYTES_MAX     ((size_t)256 << 20) /* bytes of all files */
#define NAMED_FILES_MAX     16384  /* several, which may not exist, for each repository */
#define NAMED_DEPTH_MAX     11     /* a file, and 10 levels of includes, as in git */
#define NAMED_EVALUATED_MAX 256    /* files that a repository includes */
#define NAMED_PAIRS_MAX     4096   /* in GIT_CONFIG_COUNT */
#define NAMED_WORDS_MAX     500000 /* of values and commands; each takes system calls */

/* NOLINTBEGIN(misc-no-recursion): as deep as NAMED_DEPTH_MAX, and the places */

/* ----------------------------------------------------------------------- limits */

void named_too_much(struct named_search *s, const char *fmt, ...)
{
	va_list ap;

	s->out->unclear = true;
	if (s->out->too_much)
		return;
	va_start(ap, fmt);
	if (vasprintf(&s->out->too_much, fmt, ap) < 0) {
		s->out->too_much = NULL;
		s->failed = true;
	}
	va_end(ap);
}

const char *named_in_project(const struct named_search *s, const char *path)
{
	const size_t n = strlen(s->project);

	return strncmp(path, s->project, n) == 0 && path[n] == '/' ? path + n + 1 : path;
}

/* --------------------------------------------------------------------- commands */

static void named_word(void *arg, const char *word, bool dir)
{
	struct named_search *s = arg;
	char path[PATH_MAX], *real = NULL;
	size_t n;

	named_secrets_word(s, word);
	if (++s->words > NAMED_WORDS_MAX) {
		s->out->unclear = true;
		return;
	}
	named_add(s, s->top, word);
	/* Programs are taken from the project's directory itself. */
	if (dir && named_join(s, s->top, word, path))
		real = realpath(path, NULL);
	n = real ? strlen(real) : 0;
	/* A pattern in a directory above the project may match it, too. */
	if (n > 0 && strncmp(s->project, real, n) == 0 &&
	    (real[n - 1] == '/' || s->project[n] == '/' || !s->project[n]))
		s->out->unclear = true;
	free(real);
}

/* Programs are in this directory, or below it. */
static void named_directory(struct named_search *s, const char *path)
{
	char absolute[PATH_MAX];
	AUTO_FREE char *real = NULL;

	named_word(s, path, false);
	if (named_join(s, s->top, path, absolute))
		real = realpath(absolute, NULL);
	if (real && strcmp(real, s->project) == 0)
		s->out->unclear = true;
}

/*
 * In directories of PATH, a shell also reads files that cannot be executed (". x"). In
 * the directory where it runs, it does so only if a word of the command names them.
 */
void named_path_entry(struct named_search *s, const char *path)
{
	char absolute[PATH_MAX];
	AUTO_FREE char *real = NULL;
	bool top;

	if (named_join(s, s->top, path, absolute))
		real = realpath(absolute, NULL);
	top = real && (strcmp(real, s->project) == 0 || strcmp(real, s->top) == 0);
	s->only = top ? NAMED_PROGRAMS : NAMED_FILES;
	named_add(s, s->top, path);
	s->only = NULL;
}

static void named_command(struct named_search *s, const char *command, bool plain)
{
	struct git_words w = {
		.top = s->top, .home = s->home, .path = named_word, .arg = s
	};

	/* A program whose path has blanks, or is not for the shell. */
	named_add(s, s->top, command);
	if ((plain ? git_words_read_plain(&w, command) : git_words_read(&w, command)) < 0)
		s->failed = true;
	s->out->unclear |= w.unclear;
}

/* "ext::command" is a URL of a repository; "% " in it is a blank in a word. */
static void named_url(struct named_search *s, const char *url)
{
	const char *at = strstr(url, "ext::");
	AUTO_FREE char *command = at ? strdup(at + 5) : NULL;

	for (char *c = command; c && *c; c++)
		if (c[0] == '%' && c[1] == ' ')
			*c = '\\';
	if (command)
		named_command(s, command, true);
	else if (at)
		s->failed = true;
}

/* Programs are in this directory. */
static void named_programs(struct named_search *s, const char *path)
{
	char absolute[PATH_MAX];

	named_directory(s, path);
	if (named_join(s, s->top, path, absolute))
		named_links(s, absolute);
}

static bool named_is_setting(const char *value)
{
	static const char *const settings[] = {
		"", "true", "false", "yes", "no", "on", "off", "auto", "always", "never"
	};

	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		if (strcasecmp(settings[i], value) == 0)
			return true;
	return strspn(value, "0123456789") == strlen(value);
}

/* ---------------------------------------------------------------- configuration */

static void named_include(struct named_search *s, const char *value)
{
	char dir[PATH_MAX], path[PATH_MAX];
	char *slash;

	(void)snprintf(dir, sizeof(dir), "%s", s->file ? s->file : s->top);
	slash = strrchr(dir, '/');
	if (slash && s->file)
		*slash = '\0';
	named_add(s, dir, value);
	if (named_join(s, dir, value, path))
		named_config(s, path);
}

static void named_entry(void *arg, struct git_config_entry *e)
{
	struct named_search *s = arg;

	named_url(s, e->subsection);
	named_url(s, e->value);
	s->credential = strcasecmp(e->section, "credential") == 0;
	named_secrets(s, e);
	switch (git_key_of(e->section, e->key)) {
	case GIT_KEY_INCLUDE:
		named_include(s, e->value);
		return;
	case GIT_KEY_PATH:
		named_programs(s, e->value);
		return;
	case GIT_KEY_COMMAND:
		if (!named_is_setting(e->value))
			named_command(s, e->value + (e->value[0] == '!'), false);
		return;
	case GIT_KEY_ALIAS:
		if (e->value[0] == '!')
			named_command(s, e->value + 1, false);
		else
			named_command(s, e->value, true);
		return;
	case GIT_KEY_OTHER:
		if (!named_is_setting(e->value))
			named_command(s, e->value, true);
		return;
	case GIT_KEY_DATA:
	case GIT_KEY_WORKTREE:
	default:
		return;
	}
}

static char *named_read_file(struct named_search *s, const char *path, size_t *ret_n)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	char *text = NULL;
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return NULL;
	r = work_file_read(fd, NAMED_CONFIG_MAX, &text, ret_n);
	/* Git would read it. */
	if (r == -EFBIG)
		named_too_much(s, "'%.150s' has more than %zu MiB",
			       named_in_project(s, path), NAMED_CONFIG_MAX >> 20);
	return r < 0 ? NULL : text;
}

static int named_file_compare(const void *a, const void *b)
{
	return strcmp(((const struct named_file *)a)->path,
		      ((const struct named_file *)b)->path);
}

static void named_file_free(void *file)
{
	struct named_file *f = file;

	free(f->path);
	free(f->text);
	free(f->top);
	free(f);
}

/* Add a file to those that were read, or not found; NULL: there are too many. */
static struct named_file *named_file_add(struct named_search *s, const char *path)
{
	struct named_file *f;

	if (s->n_files >= NAMED_FILES_MAX || s->bytes > NAMED_BYTES_MAX) {
		named_too_much(s, "there are more than %d files, or %zu MiB",
			       NAMED_FILES_MAX, NAMED_BYTES_MAX >> 20);
		return NULL;
	}
	f = calloc(1, sizeof(*f));
	if (f)
		f->path = strdup(path);
	if (!f || !f->path || !tsearch(f, &s->files, named_file_compare)) {
		if (f)
			named_file_free(f);
		s->failed = true;
		return NULL;
	}
	s->n_files++;
	return f;
}

static struct named_file *named_file_get(struct named_search *s, const char *path)
{
	struct named_file key = { .path = (char *)(uintptr_t)path }, *f;
	void *found = tfind(&key, &s->files, named_file_compare);

	if (found) {
		f = *(struct named_file **)found;
	} else {
		f = named_file_add(s, path);
		if (!f)
			return NULL;
		f->text = named_read_file(s, path, &f->n);
		s->bytes += f->n;
	}
	return f->text ? f : NULL;
}

const struct named_file *named_slurp(struct named_search *s, const char *path)
{
	return named_file_get(s, path);
}

/* A file of the project has configuration. */
static void named_note_config(struct named_search *s, const char *path)
{
	AUTO_FREE char *real = realpath(path, NULL);
	size_t n = strlen(s->project);

	if (!real || strncmp(real, s->project, n) != 0 || real[n] != '/')
		return;
	for (char **c = s->out->configs; c && *c; c++)
		if (strcmp(*c, real + n + 1) == 0)
			return;
	if (strv_add(&s->out->configs, real + n + 1) < 0)
		s->failed = true;
}

/* Was the file read for the same place, with all that it includes? Otherwise, it will be.
 */
static bool named_was_read(struct named_search *s, struct named_file *f)
{
	if (f->top && strcmp(f->top, s->top) == 0 && f->home == s->home &&
	    f->depth <= s->depth)
		return true;
	free(f->top);
	f->top = strdup(s->top);
	f->home = s->home;
	f->depth = s->depth;
	s->failed |= !f->top;
	return false;
}

void named_config(struct named_search *s, const char *path)
{
	struct named_file *f = named_file_get(s, path);
	const char *outer = s->file;

	if (!f || s->depth >= NAMED_DEPTH_MAX || named_was_read(s, f))
		return;
	if (++s->evaluated > NAMED_EVALUATED_MAX) {
		named_too_much(s, "'%.150s' includes more than %d files",
			       named_in_project(s, s->top), NAMED_EVALUATED_MAX);
		return;
	}
	named_note_config(s, path);
	s->file = f->path;
	s->depth++;
	if (git_config_parse(f->text, f->n, named_entry, s) < 0)
		s->failed = true;
	s->depth--;
	s->file = outer;
}

/* ------------------------------------------------------------- the environment */

static const char *const named_commands[] = {
	"GIT_ASKPASS",
	"GIT_EDITOR",
	"GIT_EXTERNAL_DIFF",
	"GIT_PAGER",
	"GIT_PROXY_COMMAND",
	"GIT_SEQUENCE_EDITOR",
	"GIT_SSH",
	"GIT_SSH_COMMAND",
	"SSH_ASKPASS",
	"EDITOR",
	"VISUAL",
	"PAGER",
	"BROWSER",
	"GIT_MAN_VIEWER",
};

/* GIT_CONFIG_KEY_1=core.hooksPath */
static void named_pair(struct named_search *s, const char *name, const char *text)
{
	AUTO_FREE char *section = strdup(name), *value = strdup(text);
	struct git_config_entry e = { .section = section, .value = value };
	char *dot, *last;

	if (!section || !value) {
		s->failed = true;
		return;
	}
	dot = strchr(section, '.');
	last = strrchr(section, '.');
	if (!dot)
		return;
	*dot = *last = '\0';
	e.key = last + 1;
	e.subsection = last > dot ? dot + 1 : "";
	named_entry(s, &e);
}

static void named_variables(struct named_search *s)
{
	static const char *const dirs[] = { "GIT_TEMPLATE_DIR", "GIT_EXEC_PATH" };
	const char *count = getenv("GIT_CONFIG_COUNT"), *all, *value;
	unsigned long n = count ? strtoul(count, NULL, 10) : 0;

	s->credential = false;
	for (size_t i = 0; i < ARRAY_SIZE(named_commands); i++) {
		value = getenv(named_commands[i]);
		if (value)
			named_command(s, value, false);
	}
	for (size_t i = 0; i < ARRAY_SIZE(dirs); i++) {
		value = getenv(dirs[i]);
		if (value)
			named_programs(s, value);
	}
	if (n > NAMED_PAIRS_MAX)
		named_too_much(s, "GIT_CONFIG_COUNT is more than %d", NAMED_PAIRS_MAX);
	for (unsigned long i = 0; i < n && i < NAMED_PAIRS_MAX; i++) {
		char key[64], text[64];

		(void)snprintf(key, sizeof(key), "GIT_CONFIG_KEY_%lu", i);
		(void)snprintf(text, sizeof(text), "GIT_CONFIG_VALUE_%lu", i);
		if (getenv(key) && getenv(text))
			named_pair(s, getenv(key), getenv(text));
	}
	named_path(s, true);
	/* What "git -c" gives to its children: 'key'='value' */
	all = getenv("GIT_CONFIG_PARAMETERS");
	if (all) {
		named_command(s, all, true);
		s->out->unclear |= strcasestr(all, "include.path") != NULL;
	}
}

static void named_config_in(struct named_search *s, const char *dir, const char *name)
{
	char path[PATH_MAX];

	if (!dir || !named_join(s, dir, name, path))
		return;
	named_add(s, "/", path);
	named_config(s, path);
}

void named_environment(struct named_search *s)
{
	const char *xdg = getenv("XDG_CONFIG_HOME"), *all = getenv("GIT_CONFIG_GLOBAL"),
		   *system = getenv("GIT_CONFIG_SYSTEM");

	named_config_in(s, "/", "etc/gitconfig");
	named_config_in(s, "/", "usr/local/etc/gitconfig");
	if (system)
		named_config_in(s, s->project, system);
	if (all)
		named_config_in(s, s->project, all);
	named_config_in(s, s->home, ".gitconfig");
	if (xdg && xdg[0] == '/')
		named_config_in(s, xdg, "git/config");
	named_config_in(s, s->home, ".config/git/config");
	named_variables(s);
}

/* NOLINTEND(misc-no-recursion) */

/* ---------------------------------------------------------------- the whole list */

/* If root runs this, git runs as the project's owner. */
static void named_owner(struct named_search *s)
{
	struct passwd_entry user;
	AUTO_FREE char *text = NULL;
	struct stat st;
	size_t n;

	s->homes[0] = getenv("HOME");
	if (geteuid() != 0 || stat(s->project, &st) < 0 || st.st_uid == 0)
		return;
	text = named_read_file(s, "/etc/passwd", &n);
	if (text && passwd_find(text, n, NULL, st.st_uid, &user) == 0)
		s->homes[1] = s->owner_home = strdup(user.home);
}

static int named_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void named_sort(struct git_named *n)
{
	size_t out = 0;

	if (n->n > 0)
		qsort(n->paths, n->n, sizeof(*n->paths), named_compare);
	for (size_t i = 0; i < n->n; i++)
		if (out > 0 && strcmp(n->paths[out - 1], n->paths[i]) == 0)
			free(n->paths[i]);
		else
			n->paths[out++] = n->paths[i];
	n->n = out;
}

static struct named_search *named_begin(const char *project, struct git_named *n)
{
	struct named_search *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->project = project;
	s->out = n;
	s->cap = n->n;
	named_owner(s);
	s->home = s->homes[0];
	return s;
}

static int named_end(struct named_search *s)
{
	int r = s->failed ? -ENOMEM : 0;

	tdestroy(s->files, named_file_free);
	named_secrets_done(s);
	named_sort(s->out);
	free(s->owner_home);
	(void)strv_free(s->linked);
	for (size_t i = 0; i < ARRAY_SIZE(s->known); i++)
		free(s->known[i]);
	free(s);
	return r;
}

static void named_below(struct named_search *s, const char *repository)
{
	char top[PATH_MAX];

	if (named_join(s, s->project, repository, top))
		named_repository_at(s, top);
}

int git_named_add(const char *project, const char *repository, struct git_named *n)
{
	struct named_search *s = named_begin(project, n);

	if (!s)
		return -ENOMEM;
	named_below(s, repository);
	return named_end(s);
}

int git_named_read(const char *project, char *const *repositories, bool programs,
		   struct git_named *ret)
{
	struct git_named n = { 0 };
	struct named_search *s = named_begin(project, &n);
	int r;

	if (!s)
		return -ENOMEM;
	if (programs)
		named_path(s, false);
	named_repositories_above(s);
	for (; repositories && *repositories; repositories++)
		named_below(s, *repositories);
	r = named_end(s);
	if (r < 0) {
		git_named_done(&n);
		return r;
	}
	*ret = n;
	return 0;
}

void git_named_done(struct git_named *n)
{
	for (size_t i = 0; i < n->n; i++)
		free(n->paths[i]);
	free(n->paths);
	(void)strv_free(n->configs);
	(void)strv_free(n->secrets);
	free(n->too_much);
	(void)strv_free(n->read);
	(void)strv_free(n->tops);
	*n = (struct git_named){ 0 };
}

/* The first one that is not before @path. */
static size_t named_find(const struct git_named *n, const char *path)
{
	size_t low = 0;

	for (size_t high = n->n; low < high;) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(n->paths[middle], path) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool named_is_in(const struct git_named *n, const char *path)
{
	size_t at = named_find(n, path);

	return at < n->n && strcmp(n->paths[at], path) == 0;
}

/* Is the file one of those that are named in its directory? @path is in lower case. */
static bool named_is_directly(const struct git_named *n, const char *path, bool program)
{
	const char *slash = strrchr(path, '/');
	int length = slash ? (int)(slash - path) : 0;
	char dir[PATH_MAX + sizeof(NAMED_FILES)];

	(void)snprintf(dir, sizeof(dir), "%.*s" NAMED_FILES, length, path);
	if (named_is_in(n, dir))
		return true;
	(void)snprintf(dir, sizeof(dir), "%.*s" NAMED_PROGRAMS, length, path);
	return program && named_is_in(n, dir);
}

bool git_named_has(const struct git_named *n, const char *path, bool is_dir, bool program)
{
	char lower[PATH_MAX + 1];
	size_t len = 0, at;

	if (n->n == 0)
		return false;
	/* Each directory above it, and the path itself. */
	for (; len < PATH_MAX - 1; len++) {
		if (len > 0 && (path[len] == '/' || !path[len])) {
			lower[len] = '\0';
			if (named_is_in(n, lower))
				return true;
		}
		if (!path[len])
			break;
		lower[len] = (char)tolower((unsigned char)path[len]);
	}
	lower[len] = '\0';
	if (named_is_directly(n, lower, program))
		return true;
	if (is_dir)
		return false;
	lower[len++] = '/';
	lower[len] = '\0';
	at = named_find(n, lower);
	return at < n->n && strncmp(n->paths[at], lower, len) == 0;
}
