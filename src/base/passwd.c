/* SPDX-License-Identifier: Apache-2.0 */
/* passwd.c - parse passwd and group files with one line splitter */
#include "base/passwd.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

struct field {
	const char *s;
	size_t n;
};

/* Get the next line with exactly @want fields; false: there are no more. */
static bool passwd_next_line(const char **text, const char *end, struct field *f,
			     size_t want)
{
	while (*text < end) {
		const char *line = *text,
			   *stop = memchr(line, '\n', (size_t)(end - line));
		size_t n = 0;

		if (!stop)
			stop = end;
		*text = stop < end ? stop + 1 : end;
		if (memchr(line, '\0', (size_t)(stop - line)))
			continue;
		for (const char *p = line; n <= want; n++) {
			const char *colon = memchr(p, ':', (size_t)(stop - p));

			if (n < want)
				f[n] = (struct field){
					p, (size_t)((colon ? colon : stop) - p)
				};
			if (!colon) {
				n++;
				break;
			}
			p = colon + 1;
		}
		if (n == want && f[0].n > 0)
			return true;
	}
	return false;
}

static bool field_id(const struct field *f, uint32_t *ret)
{
	uint64_t v = 0;

	if (f->n == 0 || f->n > 10)
		return false;
	for (size_t i = 0; i < f->n; i++) {
		if (f->s[i] < '0' || f->s[i] > '9')
			return false;
		v = v * 10 + (unsigned)(f->s[i] - '0');
	}
	if (v >= UINT32_MAX)
		return false;
	*ret = (uint32_t)v;
	return true;
}

static bool field_is(const struct field *f, const char *s)
{
	return strlen(s) == f->n && memcmp(f->s, s, f->n) == 0;
}

static void copy_field(char *to, size_t size, const struct field *f)
{
	(void)memcpy(to, f->s, f->n);
	to[f->n < size ? f->n : size - 1] = '\0';
}

int passwd_find(const char *text, size_t size, const char *name, uint32_t uid,
		struct passwd_entry *ret)
{
	const char *end = text + size;
	struct field f[7];

	while (passwd_next_line(&text, end, f, 7)) {
		struct passwd_entry e = { .home = "/" };

		if (!field_id(&f[2], &e.uid) || !field_id(&f[3], &e.gid) ||
		    f[0].n >= sizeof(e.name))
			continue;
		if (name ? !field_is(&f[0], name) : e.uid != uid)
			continue;
		copy_field(e.name, sizeof(e.name), &f[0]);
		if (f[5].n > 0 && f[5].n < sizeof(e.home) && f[5].s[0] == '/')
			copy_field(e.home, sizeof(e.home), &f[5]);
		*ret = e;
		return 0;
	}
	return -ENOENT;
}

int passwd_find_group(const char *text, size_t size, const char *name, uint32_t *ret_gid)
{
	const char *end = text + size;
	struct field f[4];

	while (passwd_next_line(&text, end, f, 4))
		if (field_is(&f[0], name) && field_id(&f[2], ret_gid))
			return 0;
	return -ENOENT;
}

int passwd_group_name(const char *text, size_t size, uint32_t gid, char ret[64])
{
	const char *end = text + size;
	struct field f[4];
	uint32_t id;

	while (passwd_next_line(&text, end, f, 4)) {
		if (f[0].n >= 64 || !field_id(&f[2], &id) || id != gid)
			continue;
		copy_field(ret, 64, &f[0]);
		return 0;
	}
	return -ENOENT;
}

static bool passwd_lists(const struct field *members, const char *user)
{
	const char *p = members->s, *end = members->s + members->n;

	while (p < end) {
		const char *comma = memchr(p, ',', (size_t)(end - p));
		struct field one = { p, (size_t)((comma ? comma : end) - p) };

		if (field_is(&one, user))
			return true;
		p = comma ? comma + 1 : end;
	}
	return false;
}

size_t passwd_find_groups(const char *text, size_t size, const char *user, uint32_t *gids,
			  size_t max)
{
	const char *end = text + size;
	struct field f[4];
	size_t n = 0;

	while (n < max && passwd_next_line(&text, end, f, 4))
		if (passwd_lists(&f[3], user) && field_id(&f[2], &gids[n]))
			n++;
	return n;
}
