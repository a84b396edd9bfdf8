/* SPDX-License-Identifier: Apache-2.0 */
/* hide_config.c - git's configuration without credentials: a pure function */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "work/git_config.h"
#include "work/hide_internal.h"

#define CONFIG_STOPS "/\"'\\#;" /* end the host of a URL in a configuration */
#define RECORD_STOPS "/"        /* the same, in lines of git's records */
#define RECORD_ID    40         /* minimum number of digits of an id */

struct config_cleaner {
	struct buf *out;
	bool dropped; /* the section is */
};

/* The length of the logical line at @text: lines that end with a backslash continue. */
static size_t config_line(const char *text, size_t n)
{
	size_t at = 0;

	while (at < n) {
		const char *stop = memchr(text + at, '\n', n - at);
		size_t end = stop ? (size_t)(stop - text) + 1 : n;
		size_t last = stop ? end - 1 : end;

		if (last > at && text[last - 1] == '\r')
			last--;
		if (!stop || last == at || text[last - 1] != '\\')
			return end;
		at = end;
	}
	return n;
}

static bool config_is_ssh(const char *text, const char *colon)
{
	return colon - text >= 3 && strncasecmp(colon - 3, "ssh", 3) == 0;
}

/*
 * The text up to a blank or quote. It is searched once, whatever number of URLs it has:
 * otherwise, a long one would take hours.
 */
struct config_word {
	const char *stop;
	const char *token; /* the last one in it, or NULL */
};

static void config_word_find(struct config_word *w, const char *text, const char *end)
{
	const char *stop = text, *at = text;

	while (stop < end && !isspace((unsigned char)*stop) && *stop != '"')
		stop++;
	w->stop = stop;
	w->token = NULL;
	while ((at = memmem(at, (size_t)(stop - at), "token=", 6)))
		w->token = at++;
}

/*
 * Write the URL at @text, before which @w was found, up to its parameters, if one of them
 * is a token.
 */
static const char *config_parameters(struct buf *out, struct config_word *w,
				     const char *text, const char *end)
{
	const char *next, *query;

	if (!w->stop || text > w->stop)
		config_word_find(w, text, end);
	if (!w->token || w->token < text)
		return text;
	next = memmem(text, (size_t)(w->stop - text), "://", 3);
	query = memchr(text, '?', (size_t)((next ? next : w->stop) - text));
	if (!query || w->token < query)
		return text;
	buf_add(out, text, (size_t)(query - text));
	return w->stop;
}

/*
 * Write text without the user names and passwords of URLs, except for the users of ssh.
 * The part of a URL before its path ends at blanks and at the characters @stops.
 */
static void config_urls(struct buf *out, const char *text, size_t n, const char *stops)
{
	const char *end = text + n;
	struct config_word word = { NULL, NULL };

	while (text < end) {
		const char *colon = memmem(text, (size_t)(end - text), "://", 3);
		const char *host, *stop, *at, *password;

		if (!colon)
			break;
		host = colon + 3;
		stop = host;
		while (stop < end && !isspace((unsigned char)*stop) &&
		       !strchr(stops, *stop))
			stop++;
		at = memrchr(host, '@', (size_t)(stop - host));
		buf_add(out, text, (size_t)(host - text));
		if (at && config_is_ssh(text, colon)) {
			password = memchr(host, ':', (size_t)(at - host));
			buf_add(out, host, (size_t)((password ? password : at) - host));
			buf_add(out, "@", 1);
		}
		text = config_parameters(out, &word, at ? at + 1 : host, end);
	}
	buf_add(out, text, (size_t)(end - text));
}

static bool config_key_dropped(const char *key, size_t n)
{
	static const char *const parts[] = { "token",  "pass",      "credential",
					     "secret", "header",    "cookie",
					     "apikey", "sslkey",    "accesskey",
					     "oauth",  "privatekey" };
	char name[64];
	size_t i;

	for (i = 0; i < n && i + 1 < sizeof(name) &&
		    (isalnum((unsigned char)key[i]) || key[i] == '-');
	     i++)
		name[i] = (char)tolower((unsigned char)key[i]);
	name[i] = '\0';
	for (i = 0; i < ARRAY_SIZE(parts); i++)
		if (strstr(name, parts[i]))
			return true;
	return strcmp(name, "pat") == 0 || strcmp(name, "auth") == 0;
}

static size_t config_blank(const char *text, size_t n)
{
	size_t i = 0;

	while (i < n && (text[i] == ' ' || text[i] == '\t'))
		i++;
	return i;
}

/* The length of "[section "name"]"; 0: it is not closed. */
static size_t config_header(const char *line, size_t n)
{
	bool quoted = false;

	for (size_t i = 0; i < n; i++) {
		if (quoted && line[i] == '\\')
			i++;
		else if (line[i] == '"')
			quoted = !quoted;
		else if (line[i] == ']' && !quoted)
			return i + 1;
	}
	return 0;
}

/* The line as git understands it: continued, without quotes, escapes and comments. */
static void config_plain(struct buf *out, const char *line, size_t n)
{
	bool quoted = false;

	for (size_t i = 0; i < n; i++) {
		char c = line[i];

		if (c == '"') {
			quoted = !quoted;
			continue;
		}
		if (!quoted && (c == '#' || c == ';'))
			return;
		if (c == '\\' && i + 1 < n) {
			c = line[++i];
			if (c == '\r' && i + 1 < n && line[i + 1] == '\n')
				c = line[++i];
			if (c == '\n')
				continue;
		}
		buf_add(out, &c, 1);
	}
}

/* Is there a URL with a password, which git finds up to the path of the URL? */
static bool config_has_password(const struct buf *plain)
{
	const char *text = plain->data, *end = text + plain->len, *colon;

	while (text && text < end &&
	       (colon = memmem(text, (size_t)(end - text), "://", 3))) {
		const char *host = colon + 3, *stop = host, *at;

		while (stop < end && !strchr("/?#", *stop))
			stop++;
		at = memrchr(host, '@', (size_t)(stop - host));
		if (at && (!config_is_ssh(text, colon) ||
			   memchr(host, ':', (size_t)(at - host))))
			return true;
		text = host;
	}
	return false;
}

/* "http.proxy = user:password@host": a URL without its scheme. */
static bool config_is_proxy(const char *line, size_t n)
{
	size_t key = 0;

	while (key < n && isalnum((unsigned char)line[key]))
		key++;
	return key >= 5 && strncasecmp(line + key - 5, "proxy", 5) == 0 &&
	       memchr(line, '@', n) && !memmem(line, n, "://", 3);
}

/* Does the line, which may be commented out, have a password in its value? */
static bool config_value_dropped(const char *line, size_t n)
{
	struct buf raw AUTO_BUF = BUF_INIT(SIZE_MAX), plain AUTO_BUF = BUF_INIT(SIZE_MAX);

	config_urls(&raw, line, n, CONFIG_STOPS);
	for (size_t i = 0; i < raw.len; i++)
		if (!raw.data[i])
			raw.data[i] = ' ';
	config_plain(&plain, raw.data ? raw.data : "", raw.len);
	buf_add(&raw, "", 1);
	buf_add(&plain, "", 1);
	return raw.failed || plain.failed || config_is_proxy(line, n) ||
	       hide_command_has_secret(raw.data) || hide_command_has_secret(plain.data);
}

static void config_write(struct config_cleaner *c, const char *line, size_t n)
{
	size_t blank = config_blank(line, n), header = 0;
	const char *at = line + blank;

	if (blank < n && *at == '[') {
		header = config_header(at, n - blank);
		c->dropped = header == 0 || strncasecmp(at, "[credential", 11) == 0;
	}
	if (c->dropped)
		return;
	/* A key may follow in the same line. */
	at += header;
	at += config_blank(at, (size_t)(line + n - at));
	if (config_key_dropped(at, (size_t)(line + n - at)) ||
	    config_value_dropped(at, (size_t)(line + n - at))) {
		if (header > 0) {
			config_urls(c->out, line, blank + header, CONFIG_STOPS);
			buf_add(c->out, "\n", 1);
		}
		return;
	}
	config_urls(c->out, line, n, CONFIG_STOPS);
}

static void config_one(struct config_cleaner *c, const char *line, size_t n)
{
	struct buf one AUTO_BUF = BUF_INIT(SIZE_MAX), plain AUTO_BUF = BUF_INIT(SIZE_MAX);
	struct buf *out = c->out;

	c->out = &one;
	config_write(c, line, n);
	c->out = out;
	config_plain(&plain, one.data ? one.data : "", one.len);
	/* Written with quotes or escapes in between: such a line is left out. */
	if (plain.failed || one.failed || config_has_password(&plain)) {
		c->dropped |= line[config_blank(line, n)] == '[';
		return;
	}
	buf_add(out, one.data ? one.data : "", one.len);
}

/* Does a line of the reflog or of FETCH_HEAD begin here? No key looks like that. */
static bool config_is_record(const char *text, size_t n)
{
	size_t i = 0;

	while (i < n && isxdigit((unsigned char)text[i]))
		i++;
	return i >= RECORD_ID && i < n && (text[i] == ' ' || text[i] == '\t');
}

void git_config_clean(const char *text, size_t n, struct buf *out)
{
	struct config_cleaner c = { .out = out };
	size_t mark = git_config_mark(text, n);

	buf_add(out, text, mark);
	for (size_t at = mark; at < n;) {
		const char *stop = memchr(text + at, '\n', n - at);
		size_t line;

		if (config_is_record(text + at, n - at)) {
			line = stop ? (size_t)(stop - text) + 1 - at : n - at;
			config_urls(out, text + at, line, RECORD_STOPS);
		} else {
			line = config_line(text + at, n - at);
			config_one(&c, text + at, line);
		}
		at += line;
	}
}
