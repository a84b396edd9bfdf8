/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git_named_secrets.c - files with secrets that git's configuration names
 *
 * Such files can have any name: 'credential.helper = store --file x', 'ssh -i x',
 * 'sshpass -f x', http.cookieFile. Every word of a value may be one. The contents decide,
 * because the file may also be a program or a public key.
 */
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/strv.h"
#include "work/files_internal.h"
#include "work/git_config.h"
#include "work/git_keys.h"
#include "work/git_named_internal.h"

#define SECRETS_SIZE_MAX  ((size_t)64 << 20) /* bytes of a file */
#define SECRETS_FIRST     4096               /* bytes of a larger one */
#define SECRETS_MAX       65536              /* different paths of a repository */
#define SECRETS_DEPTH_MAX 16                 /* of words in words */
#define SECRETS_SPECIAL   " \t\r\n;|&()<>\"'\\`"

/* Is there a URL with a password that is not a variable? */
static bool secrets_has_url(const char *text)
{
	for (const char *at = text; (at = strstr(at, "://"));) {
		size_t n = strcspn(at += 3, "/ \t\r\n\"'`$");

		if (memchr(at, '@', n) && memchr(at, ':', n))
			return true;
	}
	return false;
}

/* Does the text contain a secret? A credential helper can be a script with passwords. */
static bool secrets_are_in(const char *text, bool credentials)
{
	return strstr(text, "PRIVATE KEY-----") ||
	       strncmp(text, "PuTTY-User-Key-File", 19) == 0 ||
	       (credentials && secrets_has_url(text));
}

static int secrets_compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Remember the path; returns 1 if it is new. */
static int secrets_new(void **tree, const char *path, bool all, bool credentials)
{
	char *key = NULL;
	const char *const *node;

	if (asprintf(&key, "%c%s", '0' + all * 2 + credentials, path) < 0)
		return -ENOMEM;
	node = tsearch(key, tree, secrets_compare);
	if (!node || *node != key)
		free(key);
	return !node ? -ENOMEM : *node == key;
}

/* Read a file; false: it is a program, or cannot be read. */
static bool secrets_read(int fd, char **ret)
{
	char first[SECRETS_FIRST];
	size_t size;
	ssize_t n;
	int r = work_file_read(fd, SECRETS_SIZE_MAX, ret, &size);

	if (r != -EFBIG)
		return r == 0;
	n = pread(fd, first, sizeof(first), 0);
	return n > 0 && !memchr(first, '\0', (size_t)n);
}

/* Does the file have a secret? A text that is too large to be read may have one. */
static bool secrets_has_file(const char *path, bool all, bool credentials)
{
	AUTO_CLOSE int fd =
		open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
	AUTO_FREE char *text = NULL;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	return all ||
	       (secrets_read(fd, &text) && (!text || secrets_are_in(text, credentials)));
}

/* Note the file at @path if it is in the project and has secrets. @all: it has. */
static void secrets_file(struct named_search *s, const char *path, bool all,
			 bool credentials)
{
	AUTO_FREE char *real = NULL;
	const size_t n = strlen(s->project);
	int r;

	if (s->n_tried > SECRETS_MAX)
		return;
	r = secrets_new(&s->tried, path, all, credentials);
	s->failed |= r < 0;
	if (r <= 0)
		return;
	if (++s->n_tried > SECRETS_MAX) {
		named_too_much(s, "the values for '%.150s' have more than %d words",
			       named_in_project(s, s->top), SECRETS_MAX);
		return;
	}
	if (access(path, F_OK) < 0) /* like most words */
		return;
	real = realpath(path, NULL);
	if (!real || strncmp(real, s->project, n) != 0 || real[n] != '/')
		return;
	r = secrets_new(&s->looked, real, all, credentials);
	s->failed |= r < 0;
	if (r <= 0 || !secrets_has_file(real, all, credentials) ||
	    strv_has(s->out->secrets, real + n + 1))
		return;
	if (strv_add(&s->out->secrets, real + n + 1) < 0)
		s->failed = true;
}

/* Note what the text from @from to @end names. */
static void secrets_path(struct named_search *s, const char *from, const char *end,
			 bool all, bool credentials)
{
	static const char *const homes[] = { "$HOME/", "${HOME}/" };
	char word[PATH_MAX], path[PATH_MAX];
	const char *rest;
	size_t n;

	from += from < end && *from == '-'; /* ${KEY:-keys/x} */
	n = (size_t)(end - from);
	if (n == 0 || n >= sizeof(word))
		return;
	(void)memcpy(word, from, n);
	word[n] = '\0';
	if (named_join(s, s->top, word, path))
		secrets_file(s, path, all, credentials);
	/* "$PWD/x", and "$(git rev-parse --show-toplevel)/x", of which "/x" is left. */
	rest = word[0] == '$' || word[0] == '/' ? strchr(word, '/') : NULL;
	if (!rest)
		return;
	if (rest[1] && named_join(s, s->top, rest + 1, path))
		secrets_file(s, path, all, credentials);
	for (size_t i = 0; i < ARRAY_SIZE(homes); i++)
		if (s->home && strncmp(word, homes[i], strlen(homes[i])) == 0 &&
		    named_join(s, s->home, rest + 1, path))
			secrets_file(s, path, all, credentials);
}

/* A part of the word may be a path: --file=x, -ix, -oIdentityFile=x, KEY=x, a:x,b */
static void secrets_word(struct named_search *s, const char *word, bool all,
			 bool credentials)
{
	const char *end = word + strlen(word);
	bool option = word[0] == '-' && word[1] && word[1] != '-';

	secrets_path(s, option ? word + 2 : word, end, all, credentials);
	for (const char *at = word; *at; at++) {
		size_t n;

		if (!strchr("=:,@{", *at))
			continue;
		n = strcspn(at + 1, "=:,@{}");
		secrets_path(s, at + 1, at + 1 + n, false, credentials);
		if (at[1 + n])
			secrets_path(s, at + 1, end, false, credentials);
	}
}

void named_secrets_word(struct named_search *s, const char *word)
{
	secrets_path(s, word, word + strlen(word), false, s->credential);
}

/* NOLINTBEGIN(misc-no-recursion): as deep as SECRETS_DEPTH_MAX */

static void secrets_words(struct named_search *s, const char *value, bool credentials,
			  unsigned depth);

/* A word of @value: it may be quoted because it has words itself (sh -c 'ssh -i x'). */
static void secrets_split(struct named_search *s, const char *word, bool all,
			  bool credentials, unsigned depth)
{
	secrets_word(s, word, all, credentials);
	if (!word[strcspn(word, SECRETS_SPECIAL)])
		return;
	if (depth < SECRETS_DEPTH_MAX)
		secrets_words(s, word, credentials, depth + 1);
	else
		named_too_much(s,
			       "a value for '%.150s' has more than %d levels of quotes",
			       named_in_project(s, s->top), SECRETS_DEPTH_MAX);
}

/* Split the value like the shell, and note what its words name. */
static void secrets_words(struct named_search *s, const char *value, bool credentials,
			  unsigned depth)
{
	AUTO_FREE char *word = calloc(1, strlen(value) + 1);
	bool sshpass = strstr(value, "sshpass"), file = false;
	char quote = '\0';
	size_t n = 0;

	if (!word) {
		s->failed = true;
		return;
	}
	for (const char *at = value;; at++) {
		bool end = !*at || (!quote && strchr(" \t\r\n;|&()<>`", *at));

		if (end && n > 0) {
			word[n] = '\0';
			secrets_split(s, word,
				      sshpass && (file || strncmp(word, "-f", 2) == 0),
				      credentials, depth);
			file = strcmp(word, "-f") == 0;
			n = 0;
		}
		if (!*at)
			break;
		if (end)
			continue;
		if ((*at == '"' || *at == '\'') && (!quote || quote == *at))
			quote = (char)(quote ? '\0' : *at);
		else if (*at == '\\' && quote != '\'' && at[1])
			word[n++] = *++at;
		else
			word[n++] = *at;
	}
}

/* NOLINTEND(misc-no-recursion) */

void named_secrets(struct named_search *s, const struct git_config_entry *e)
{
	enum git_key is = git_key_of(e->section, e->key);

	if (is == GIT_KEY_INCLUDE || is == GIT_KEY_WORKTREE ||
	    (is == GIT_KEY_DATA && strcasecmp(e->key, "signingkey") != 0))
		return;
	/* The whole value may be a path with unquoted blanks. */
	secrets_path(s, e->value, e->value + strlen(e->value),
		     strcasecmp(e->key, "cookiefile") == 0, false);
	secrets_words(s, e->value, s->credential, 0);
}

void named_secrets_next(struct named_search *s)
{
	tdestroy(s->tried, free);
	s->tried = NULL;
	s->n_tried = 0;
}

void named_secrets_done(struct named_search *s)
{
	named_secrets_next(s);
	tdestroy(s->looked, free);
}
