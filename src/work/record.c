/* SPDX-License-Identifier: Apache-2.0 */
/* record.c - write and parse the record of a work */
#include "work/record.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/hex.h"
#include "base/parse.h"
#include "base/strv.h"

/* ------------------------------------------------------------------- lines */

void record_line(struct buf *b, const char *key, const char *value)
{
	buf_puts(b, key);
	buf_puts(b, " ");
	for (; *value; value++) {
		unsigned char c = (unsigned char)*value;
		const char escape[3] = { '%', hex_digit(c >> 4), hex_digit(c) };

		if (c > ' ' && c < 127 && c != '%')
			buf_add(b, value, 1);
		else
			buf_add(b, escape, sizeof(escape));
	}
	buf_puts(b, "\n");
}

/* Decode in place. */
static int record_unescape(char *s)
{
	char *out = s;

	for (; *s; s++) {
		int high, low;

		if (*s != '%') {
			*out++ = *s;
			continue;
		}
		high = hex_value(s[1]);
		low = high < 0 ? -1 : hex_value(s[2]);
		if (low < 0 || (high == 0 && low == 0))
			return -EBADMSG;
		*out++ = (char)(high << 4 | low);
		s += 2;
	}
	*out = '\0';
	return 0;
}

int record_next(char **at, const char *end, char **ret_key, char **ret_value)
{
	char *line = *at, *stop, *space;

	if (line >= end)
		return 0;
	stop = memchr(line, '\n', (size_t)(end - line));
	if (!stop || memchr(line, '\0', (size_t)(stop - line)))
		return -EBADMSG;
	*stop = '\0';
	space = strchr(line, ' ');
	if (!space)
		return -EBADMSG;
	*space = '\0';
	*at = stop + 1;
	*ret_key = line;
	*ret_value = space + 1;
	return record_unescape(space + 1) < 0 ? -EBADMSG : 1;
}

/* ------------------------------------------------------------------ fields */

/* A field is a string, or a number. */
struct record_field {
	const char *key;
	size_t at;
	size_t size; /* 0: a string */
	bool is_signed;
};

#define TEXT_FIELD(key, member)                           \
	{                                                 \
		key, offsetof(struct work_record, member) \
	}
#define NUMBER_FIELD(key, member)                                 \
	{                                                         \
		key, offsetof(struct work_record, member),        \
			sizeof(((struct work_record *)0)->member) \
	}

static const struct record_field record_fields[] = {
	TEXT_FIELD("name", name),
	TEXT_FIELD("project", project),
	TEXT_FIELD("workdir", workdir),
	TEXT_FIELD("image", image),
	TEXT_FIELD("head", head),
	TEXT_FIELD("since-head", since_head),
	TEXT_FIELD("hidden", hidden),
	NUMBER_FIELD("project-dev", project_dev),
	NUMBER_FIELD("project-ino", project_ino),
	NUMBER_FIELD("project-fsid", project_fsid),
	NUMBER_FIELD("started", started_ns),
	NUMBER_FIELD("since", since_ns),
	NUMBER_FIELD("ended", ended_ns),
	NUMBER_FIELD("pid", pid),
	NUMBER_FIELD("status", status),
};

void work_record_write(struct buf *b, const struct work_record *r)
{
	record_line(b, "id", r->id);
	record_line(b, "mode", work_mode_name(r->mode));
	for (size_t i = 0; i < ARRAY_SIZE(record_fields); i++) {
		const struct record_field *f = &record_fields[i];
		const char *member = (const char *)r + f->at;
		char number[24];

		if (f->size == 0) {
			const char *text = *(char *const *)(const void *)member;

			if (text)
				record_line(b, f->key, text);
			continue;
		}
		if (f->size == sizeof(int))
			(void)snprintf(number, sizeof(number), "%d",
				       *(const int *)(const void *)member);
		else
			(void)snprintf(number, sizeof(number), "%llu",
				       *(const unsigned long long *)(const void *)member);
		record_line(b, f->key, number);
	}
	for (char **arg = r->argv; arg && *arg; arg++)
		record_line(b, "arg", *arg);
	for (char **p = r->hide; p && *p; p++)
		record_line(b, "hide", *p);
}

static int record_set_number(const struct record_field *f, void *member,
			     const char *value)
{
	struct warren_error ignored;
	bool minus = f->size == sizeof(int) && value[0] == '-';
	uint64_t n;

	if (parse_u64(value + minus, f->size == sizeof(int) ? INT32_MAX : UINT64_MAX, &n,
		      &ignored) < 0)
		return -EBADMSG;
	if (f->size == sizeof(int))
		*(int *)member = minus ? -(int)n : (int)n;
	else
		*(uint64_t *)member = n;
	return 0;
}

static int record_set(struct work_record *r, const char *key, const char *value)
{
	struct warren_error ignored;

	if (strcmp(key, "id") == 0) {
		if (!id_valid(value))
			return -EBADMSG;
		(void)memcpy(r->id, value, sizeof(r->id));
		return 0;
	}
	if (strcmp(key, "mode") == 0)
		return work_mode_parse(value, &r->mode, &ignored) < 0 ? -EBADMSG : 0;
	if (strcmp(key, "arg") == 0)
		return strv_add(&r->argv, value);
	if (strcmp(key, "hide") == 0)
		return strv_add(&r->hide, value);
	for (size_t i = 0; i < ARRAY_SIZE(record_fields); i++) {
		const struct record_field *f = &record_fields[i];
		char *member = (char *)r + f->at, **text = (void *)member;

		if (strcmp(key, f->key) != 0)
			continue;
		if (f->size > 0)
			return record_set_number(f, member, value);
		free(*text);
		*text = strdup(value);
		return *text ? 0 : -ENOMEM;
	}
	return 0;
}

void work_record_done(struct work_record *r)
{
	free(r->name);
	free(r->project);
	free(r->workdir);
	free(r->image);
	free(r->head);
	free(r->since_head);
	free(r->hidden);
	(void)strv_free(r->argv);
	(void)strv_free(r->hide);
	*r = (struct work_record){ 0 };
}

int work_record_parse(char *text, size_t n, struct work_record *ret,
		      struct warren_error *err)
{
	struct work_record r = { .status = -1 };
	char *at = text, *key, *value;
	int more;

	while ((more = record_next(&at, text + n, &key, &value)) > 0) {
		more = record_set(&r, key, value);
		if (more < 0)
			break;
	}
	/* An older version stored it, and did not renew it. */
	if (more == 0 && r.since_ns == 0) {
		r.since_ns = r.started_ns;
		r.since_head = r.head ? strdup(r.head) : NULL;
		more = r.head && !r.since_head ? -ENOMEM : 0;
	}
	if (more == 0 && (!r.id[0] || !r.project || r.project[0] != '/' || !r.workdir))
		more = -EBADMSG;
	if (more < 0) {
		work_record_done(&r);
		return error_set(err, -more,
				 more == -ENOMEM ? "out of memory"
						 : "the record of the work is damaged");
	}
	*ret = r;
	return 0;
}
