/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hide_command.c - find passwords in commands; a pure function
 *
 * A command in git's configuration can have a password as an argument ("sshpass -p x
 * ssh"), as a variable ("API_TOKEN=x tool"), or in a header ("Authorization: Basic x").
 * The name of a file, a variable or another command that has the password is harmless.
 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "work/hide_internal.h"

/* Endings of the names of variables, options and headers with a secret. */
static const char *const hide_command_secrets[] = {
	"pass",       "password",   "passwd",     "passphrase",  "pwd",
	"token",      "secret",     "apikey",     "api_key",     "api-key",
	"access_key", "access-key", "accesskey",  "private_key", "secret_key",
	"secret-key", "secretkey",  "credential", "credentials", "authorization",
	"cookie",
};

/* Options for a password whose names do not say so. */
static const struct {
	const char *program, *option;
	bool attached; /* the password can follow in the same word */
	bool colon;    /* the value is USER:PASSWORD, or only a user */
} hide_command_options[] = {
	{ "sshpass", "-p", true, false },
	{ "openssl", "-k", false, false },
	{ "openssl", "-K", false, false },
	{ "curl", "-u", true, true },
	{ "curl", "--user", false, true },
	{ "curl", "-U", true, true },
	{ "plink", "-pw", false, false },
	{ "plink.exe", "-pw", false, false },
	{ "openssl", "-passin", false, false },
	{ "openssl", "-passout", false, false },
	/* Programs that others start: what follows are their own options. */
	{ "ssh", "", false, false },
	{ "scp", "", false, false },
	{ "sftp", "", false, false },
	{ "rsync", "", false, false },
};

#define HIDE_COMMAND_STOPS " \t\r\n"
#define HIDE_COMMAND_SHORT 8 /* longer than all values that are none (others) */

/* The text up to a blank, which is searched once, because it may have many names. */
struct hide_command_word {
	const char *stop;
	const char *colon; /* the last one in it, or NULL */
};

static bool hide_command_is_name(char c)
{
	return isalnum((unsigned char)c) || (c && strchr("_-.", c));
}

/* Skip blanks and quotes. */
static const char *hide_command_skip(const char *at)
{
	return at + strspn(at, " \t\r\n\"'\\");
}

/* Does the text begin with a literal value? */
static bool hide_command_is_value(const char *at)
{
	static const char *const others[] = { "yes",   "no",   "true", "false",
					      "on",    "off",  "none", "auto",
					      "stdin", "env:", "fd:",  "file:" };
	size_t n = 0;

	while (n < HIDE_COMMAND_SHORT && at[n] && !strchr(" \t\r\n\"'\\;,)", at[n]))
		n++;
	if (n == 0 || strchr("$`%<>|&(", *at))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		size_t size = strlen(others[i]);

		if ((n == size || (others[i][size - 1] == ':' && n > size)) &&
		    strncasecmp(at, others[i], size) == 0)
			return false;
	}
	return true;
}

static bool hide_command_is_secret(const char *name, size_t n)
{
	while (n > 0 && isdigit((unsigned char)name[n - 1]))
		n--;
	for (size_t i = 0; i < ARRAY_SIZE(hide_command_secrets); i++) {
		size_t size = strlen(hide_command_secrets[i]);

		if (n >= size &&
		    strncasecmp(name + n - size, hide_command_secrets[i], size) == 0)
			return true;
	}
	return false;
}

/* The name from @name to @end is one for a secret: does a value follow? */
static bool hide_command_assigns(const char *name, const char *end)
{
	static const char header[] = "authorization";
	const size_t n = sizeof(header) - 1;
	const char *value = hide_command_skip(end);

	/* But "refs/heads/token:x" and "token:x.git" have no secrets. */
	if (*value == '=' || (*value == ':' && (isspace((unsigned char)value[1]) ||
						((size_t)(end - name) >= n &&
						 strncasecmp(end - n, header, n) == 0))))
		return hide_command_is_value(hide_command_skip(value + 1));
	return name[0] == '-' && value > end && *value != '-' &&
	       hide_command_is_value(value);
}

/* Does a colon follow before the next blank? */
static bool hide_command_has_colon(struct hide_command_word *w, const char *value)
{
	if (!w->stop || value > w->stop) {
		size_t n = strcspn(value, HIDE_COMMAND_STOPS);

		w->stop = value + n;
		w->colon = memrchr(value, ':', n);
	}
	return w->colon && w->colon >= value;
}

/* Is the word at @name an option of the program that has a password? */
static bool hide_command_gives(const char *program, size_t size, const char *name,
			       const char *end, struct hide_command_word *w)
{
	for (size_t i = 0; i < ARRAY_SIZE(hide_command_options); i++) {
		const char *option = hide_command_options[i].option, *value;
		size_t n = strlen(option);

		if (strlen(hide_command_options[i].program) != size ||
		    strncasecmp(program, hide_command_options[i].program, size) != 0 ||
		    strncmp(name, option, n) != 0 ||
		    (name + n != end && !hide_command_options[i].attached))
			continue;
		value = hide_command_skip(name + n);
		value += *value == '=';
		if (hide_command_is_value(value) &&
		    (!hide_command_options[i].colon || hide_command_has_colon(w, value)))
			return true;
	}
	return false;
}

/* Is the word a program that has such options? */
static bool hide_command_is_program(const char *name, size_t n)
{
	for (size_t i = 0; i < ARRAY_SIZE(hide_command_options); i++)
		if (strlen(hide_command_options[i].program) == n &&
		    strncasecmp(name, hide_command_options[i].program, n) == 0)
			return true;
	return false;
}

bool hide_command_has_secret(const char *text)
{
	struct hide_command_word word = { NULL, NULL };
	const char *program = text, *end;
	size_t size = 0;

	for (const char *at = text; *at; at = end) {
		for (; *at && !hide_command_is_name(*at); at++)
			if (strchr(";|&\n", *at))
				size = 0; /* another command begins */
		for (end = at; hide_command_is_name(*end); end++)
			;
		if (hide_command_is_secret(at, (size_t)(end - at)) &&
		    hide_command_assigns(at, end))
			return true;
		if (hide_command_is_program(at, (size_t)(end - at))) {
			program = at;
			size = (size_t)(end - at);
		} else if (size > 0 &&
			   hide_command_gives(program, size, at, end, &word)) {
			return true;
		}
	}
	return false;
}
