/* SPDX-License-Identifier: Apache-2.0 */
/*
 * multipart.c - parse form data as it arrives
 *
 * Parts are separated by "\r\n--boundary". The "\r" occurs nowhere else in this
 * separator, because a boundary contains no "\r". So if a match fails, the matched bytes
 * are data, and no other match can begin inside them. The first boundary of a body has no
 * line end before it: the parser treats "\r\n" as already matched.
 */
#include "api/multipart.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/percent.h"

static bool is_boundary_byte(char c)
{
	return isalnum((unsigned char)c) || (c && strchr("'()+_,-./:=? ", c));
}

int multipart_init(struct multipart *m, const char *content_type,
		   struct warren_error *err)
{
	static const char type[] = "multipart/form-data";
	const char *p = content_type ? strcasestr(content_type, "boundary=") : NULL;
	size_t n = 0;
	bool quoted;

	(void)memset(m, 0, sizeof(*m));
	if (!p || strncasecmp(content_type, type, strlen(type)) != 0)
		return error_set(err, EINVAL, "Content-Type must be %s with a boundary",
				 type);
	p += strlen("boundary=");
	quoted = *p == '"';
	p += quoted;
	while (p[n] && p[n] != (quoted ? '"' : ';') && is_boundary_byte(p[n]))
		n++;
	if (!quoted)
		while (n > 0 && p[n - 1] == ' ')
			n--;
	if (n == 0 || n > MULTIPART_BOUNDARY_MAX || (quoted && p[n] != '"'))
		return error_set(err, EINVAL, "the boundary is not valid");
	m->mark_len = (size_t)snprintf(m->mark, sizeof(m->mark), "\r\n--%.*s", (int)n, p);
	m->matched = m->assumed = 2;
	return 0;
}

static int multipart_broken(const char *what, struct warren_error *err)
{
	return error_set(err, EBADMSG, "the form is damaged: %s", what);
}

/* Read data up to the boundary. */
static int multipart_take_data(struct multipart *m, const char *data, size_t n,
			       size_t *used, const char **ret_data, size_t *ret_size)
{
	size_t i = 0;
	const char *first;

	while (m->matched < m->mark_len && i < n && data[i] == m->mark[m->matched])
		m->matched++, i++;
	*used = i;
	if (m->matched == m->mark_len) {
		bool begun = m->state == MULTIPART_AT_DATA;

		m->matched = m->assumed = m->have = 0;
		m->state = MULTIPART_AT_TAIL;
		return begun ? MULTIPART_END : MULTIPART_MORE;
	}
	if (i == n)
		return MULTIPART_MORE;
	if (m->matched > 0) {
		*ret_data = m->mark + m->assumed;
		*ret_size = m->matched - m->assumed;
		m->matched = m->assumed = 0;
		return MULTIPART_DATA;
	}
	first = memchr(data, '\r', n);
	*ret_data = data;
	*ret_size = *used = first ? (size_t)(first - data) : n;
	return MULTIPART_DATA;
}

/* After a boundary, "--" ends the form, and a line end starts a part. */
static int take_tail(struct multipart *m, const char *data, size_t *used,
		     struct warren_error *err)
{
	m->head[m->have++] = data[0];
	*used = 1;
	/* There may be whitespace before the end of the line. */
	if (m->have == 1 && (data[0] == ' ' || data[0] == '\t')) {
		m->have = 0;
		return MULTIPART_MORE;
	}
	if (m->have < 2)
		return MULTIPART_MORE;
	if (memcmp(m->head, "--", 2) == 0) {
		m->state = MULTIPART_AT_OVER;
		return MULTIPART_OVER;
	}
	if (memcmp(m->head, "\r\n", 2) != 0)
		return multipart_broken("a boundary is not at the end of its line", err);
	if (++m->parts > (m->parts_max ? m->parts_max : MULTIPART_PARTS_MAX))
		return multipart_broken("the form has too many parts", err);
	m->have = 0;
	m->state = MULTIPART_AT_HEAD;
	return MULTIPART_MORE;
}

/* Which characters a backslash escapes in quotes; see multipart_value(). */
static const char escapable[] = "()<>@,;:\\\"/[]?=";

/*
 * Copy the value at *@at, a word or text in quotes, and advance *@at. Before other
 * characters, a backslash has no special meaning, as in Go: browsers and E2B's SDK for
 * JavaScript write names as they are. Returns the length, which is @size or more if the
 * value was cut; -EBADMSG: it does not end.
 */
static ssize_t multipart_value(const char **at, char *out, size_t size)
{
	const char *p = *at;
	bool quoted = *p == '"';
	size_t n = 0;

	for (p += quoted; *p && (quoted ? *p != '"' : !strchr("; \t", *p)); p++, n++) {
		p += quoted && *p == '\\' && p[1] && strchr(escapable, p[1]);
		if (n + 1 < size)
			out[n] = *p;
	}
	out[n < size ? n : size - 1] = '\0';
	if (quoted && *p != '"')
		return -EBADMSG;
	*at = p + quoted;
	return (ssize_t)n;
}

/* Decode "utf-8''a%20b" (RFC 2231). Returns the length, or -EBADMSG. */
static ssize_t multipart_decode(char *value, size_t size)
{
	const char *language = strchr(value, '\'');
	const char *text = language ? strchr(language + 1, '\'') : NULL;
	size_t n = language ? (size_t)(language - value) : 0;
	ssize_t r;

	if (!text || !((n == 5 && strncasecmp(value, "utf-8", n) == 0) ||
		       (n == 8 && strncasecmp(value, "us-ascii", n) == 0)))
		return -EBADMSG;
	(void)memmove(value, text + 1, strlen(text + 1) + 1);
	r = percent_decode(value, strlen(value), false, value, size);
	return r < 0 ? -EBADMSG : r;
}

/*
 * Get a parameter of Content-Disposition; one with '*' counts more than one without.
 * Returns its length; -ENOENT: missing; -E2BIG: too long; -EBADMSG: not valid.
 */
static ssize_t multipart_param(const char *line, const char *name, char *out, size_t size)
{
	const char *p = line + strcspn(line, ";");
	size_t len = strlen(name);
	ssize_t result = -ENOENT;
	bool encoded = false;

	while (*p == ';') {
		char unused[1];
		size_t n;
		bool wanted, starred;
		ssize_t r;

		p += 1 + strspn(p + 1, " \t");
		n = strcspn(p, "=; \t");
		starred = n == len + 1 && p[len] == '*';
		wanted = (n == len || starred) && strncasecmp(p, name, len) == 0 &&
			 (starred || !encoded);
		p += n;
		if (*p == '=') {
			p++;
			r = multipart_value(&p, wanted ? out : unused,
					    wanted ? size : sizeof(unused));
			if (r < 0)
				return r;
			if (wanted && (size_t)r >= size)
				return -E2BIG;
			if (wanted && starred)
				r = multipart_decode(out, size);
			if (wanted)
				result = r;
			encoded |= wanted && starred;
		}
		p += strspn(p, " \t");
	}
	return *p ? -EBADMSG : result;
}

/* Read the names in Content-Disposition. */
static int read_disposition(struct multipart *m, const char *line,
			    struct warren_error *err)
{
	ssize_t r = multipart_param(line, "name", m->name, sizeof(m->name));

	if (r == -EBADMSG)
		return multipart_broken("Content-Disposition of a part is not valid",
					err);
	if (r <= 0)
		return multipart_broken("a part has no name", err);
	r = multipart_param(line, "filename", m->file, sizeof(m->file));
	if (r == -E2BIG)
		return multipart_broken("the name of a file is too long", err);
	if (r < 0 && r != -ENOENT)
		return multipart_broken("Content-Disposition of a part is not valid",
					err);
	m->is_file = r >= 0;
	if (r < 0)
		m->file[0] = '\0';
	return 0;
}

static int read_head(struct multipart *m, struct warren_error *err)
{
	static const char field[] = "content-disposition:";
	char *line = m->head, *end;

	m->name[0] = m->file[0] = '\0';
	m->is_file = false;
	for (; (end = strstr(line, "\r\n")) && end > line; line = end + 2) {
		*end = '\0';
		if (strncasecmp(line, "content-transfer-encoding:", 26) == 0 &&
		    !strcasestr(line, "binary") && !strcasestr(line, "8bit") &&
		    !strcasestr(line, "7bit"))
			return multipart_broken("a part has a transfer encoding", err);
		if (strncasecmp(line, field, strlen(field)) != 0)
			continue;
		if (read_disposition(m, line, err) < 0)
			return -EBADMSG;
	}
	if (!m->name[0])
		return multipart_broken("a part has no name", err);
	m->have = 0;
	m->state = MULTIPART_AT_DATA;
	/* The line end that closes the header may also be the one before a boundary. */
	m->matched = m->assumed = 2;
	return MULTIPART_PART;
}

/* Read the head of a part, up to the empty line. */
static int multipart_take_head(struct multipart *m, const char *data, size_t n,
			       size_t *used, struct warren_error *err)
{
	for (*used = 0; *used < n;) {
		char c = data[(*used)++];

		if (m->have + 1 >= sizeof(m->head) || c == '\0')
			return multipart_broken("the header of a part is too long", err);
		m->head[m->have++] = c;
		if ((m->have >= 4 && memcmp(m->head + m->have - 4, "\r\n\r\n", 4) == 0) ||
		    (m->have == 2 && memcmp(m->head, "\r\n", 2) == 0)) {
			m->head[m->have] = '\0';
			return read_head(m, err);
		}
	}
	return MULTIPART_MORE;
}

int multipart_take(struct multipart *m, const char *data, size_t n, size_t *ret_used,
		   const char **ret_data, size_t *ret_size, struct warren_error *err)
{
	int ev = MULTIPART_MORE;

	*ret_used = 0;
	while (n > 0 && ev == MULTIPART_MORE) {
		size_t used = 0;

		switch (m->state) {
		case MULTIPART_AT_START:
		case MULTIPART_AT_DATA:
			ev = multipart_take_data(m, data, n, &used, ret_data, ret_size);
			if (ev == MULTIPART_DATA && m->state == MULTIPART_AT_START)
				return multipart_broken(
					"the form does not begin with its boundary", err);
			break;
		case MULTIPART_AT_TAIL:
			ev = take_tail(m, data, &used, err);
			break;
		case MULTIPART_AT_HEAD:
			ev = multipart_take_head(m, data, n, &used, err);
			break;
		case MULTIPART_AT_OVER:
			*ret_used += n;
			return MULTIPART_OVER;
		}
		data += used;
		n -= used;
		*ret_used += used;
	}
	return ev;
}

bool multipart_is_whole(const struct multipart *m)
{
	return m->state == MULTIPART_AT_OVER;
}
