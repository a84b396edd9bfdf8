/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git_named_secrets.c - files with secrets that git's configuration names
 *
 * Such files can have any name: 'credential.helper = store --file x', 'ssh -i x',
 * 'sshpass -f x', http.cookieFile. Every word of a value may be one. The contents decide,
 * because the file may also be a program or a public key.
 */
#include <ctype.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/strv.h"
#include "work/files_internal.h"
#include "work/git_config.h"
#include "work/git_keys.h"
#include "work/git_named_internal.h"

#define SECRETS_SIZE_MAX ((size_t)1 << 20) /* bytes of a file */
#define SECRETS_MAX      65536             /* words of all values */

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

/* Note the file at @path if it is in the project and has secrets. @all: it has. */
static void secrets_file(struct named_search *s, const char *path, bool all,
			 bool credentials)
{
	AUTO_FREE char *real = realpath(path, NULL), *text = NULL;
	const size_t n = strlen(s->project);
	struct stat st;
	size_t size;
	bool has;

	if (!real || strncmp(real, s->project, n) != 0 || real[n] != '/')
		return;
	for (char **c = s->out->secrets; c && *c; c++)
		if (strcmp(*c, real + n + 1) == 0)
			return;
	AUTO_CLOSE int fd =
		open(real, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	has = all || (work_file_read(fd, SECRETS_SIZE_MAX, &text, &size) == 0 &&
		      secrets_are_in(text, credentials));
	if (has && strv_add(&s->out->secrets, real + n + 1) < 0)
		s->failed = true;
}

/* The word may begin with the name of an option: --file=x, -ix. */
static void secrets_word(struct named_search *s, const char *word, bool all,
			 bool credentials)
{
	static const char *const homes[] = { "$HOME/", "${HOME}/" };
	static const char *const tops[] = { "$PWD/", "${PWD}/" };
	const char *equals = strchr(word, '='), *base = s->top;
	char path[PATH_MAX];

	if (s->secret_words++ >= SECRETS_MAX)
		return;
	if (word[0] == '-' && equals)
		word = equals + 1;
	else if (word[0] == '-' && strchr("if", word[1]) && word[1])
		word += 2;
	for (size_t i = 0; i < ARRAY_SIZE(homes); i++)
		if (s->home && strncmp(word, homes[i], strlen(homes[i])) == 0) {
			word += strlen(homes[i]);
			base = s->home;
		}
	for (size_t i = 0; i < ARRAY_SIZE(tops); i++)
		if (strncmp(word, tops[i], strlen(tops[i])) == 0)
			word += strlen(tops[i]);
	if (*word && named_join(s, base, word, path))
		secrets_file(s, path, all, credentials);
}

/* Split the value like the shell, and note what its words name. */
static void secrets_words(struct named_search *s, const char *value, bool credentials)
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
		bool end = !*at || (!quote && strchr(" \t\n;|&()<>", *at));

		if (end && n > 0) {
			word[n] = '\0';
			secrets_word(s, word,
				     sshpass && (file || strncmp(word, "-f", 2) == 0),
				     credentials);
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

void named_secrets(struct named_search *s, const struct git_config_entry *e)
{
	enum git_key is = git_key_of(e->section, e->key);

	if (is == GIT_KEY_INCLUDE || is == GIT_KEY_WORKTREE ||
	    (is == GIT_KEY_DATA && strcasecmp(e->key, "signingkey") != 0))
		return;
	/* The whole value may be a path with unquoted blanks. */
	secrets_word(s, e->value, strcasecmp(e->key, "cookiefile") == 0, false);
	secrets_words(s, e->value, strcasecmp(e->section, "credential") == 0);
}
