/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse_entries.c - convert records of a script to entries of the protocol
 *
 * The text is untrusted: records that do not match the format are skipped, and names are
 * checked.
 */
#include "shim/core/parse_entries.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "proto/init_proto.h"

#define ENTRIES_MAX (256U << 20)

/* Convert "-rwsr-xr-x", as printed by ls(1), to a mode of the kernel. */
static uint32_t parse_mode(const char *text)
{
	static const char letters[] = "-dlbcps";
	static const uint32_t types[] = { S_IFREG, S_IFDIR, S_IFLNK, S_IFBLK,
					  S_IFCHR, S_IFIFO, S_IFSOCK };
	const char *type = text[0] ? strchr(letters, text[0]) : NULL;
	uint32_t mode = type ? types[type - letters] : 0;

	for (int i = 1; i < 10 && text[0] && text[i]; i++) {
		bool special = i % 3 == 0 && strchr("sStT", text[i]);

		if (text[i] != '-' && text[i] != 'S' && text[i] != 'T')
			mode |= 1U << (9 - i);
		if (special)
			mode |= i == 3 ? S_ISUID : i == 6 ? S_ISGID : S_ISVTX;
	}
	return mode;
}

/* Return the end of "2009-02-13T23:31:30.5"; the fraction of the second is ignored. */
static char *parse_date(const char *text, double *ret)
{
	struct tm tm = { 0 };
	char *end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);

	if (!end)
		return NULL;
	*ret = (double)timegm(&tm);
	return end + strspn(end, ".0123456789");
}

/*
 * Parse "MODE UID GID SIZE MTIME INO NAME"; return the text after the numbers, or NULL if
 * the form is wrong.
 */
static const char *parse_stat(const char *text, bool hex, struct proto_entry *ret)
{
	enum {
		UID,
		GID,
		SIZE,
		MTIME,
		INO,
		NUMBERS
	};
	double n[NUMBERS] = { 0 };
	uint64_t whole[NUMBERS] = { 0 };
	const char *mode = text, *at = text + strcspn(text, " ");

	for (int i = 0; i < NUMBERS; i++) {
		char *end;

		if (*at != ' ' || !strchr("-0123456789", at[1]) || !at[1])
			return NULL;
		whole[i] = strtoull(at + 1, NULL, 10);
		n[i] = strtod(at + 1, &end);
		if (i == MTIME && *end == '-')
			end = parse_date(at + 1, &n[i]);
		if (!end)
			return NULL;
		at = end;
	}
	if (*at++ != ' ')
		return NULL;
	*ret = (struct proto_entry){
		.mode = hex ? (uint32_t)strtoul(mode, NULL, 16) : parse_mode(mode),
		.uid = (uint32_t)whole[UID],
		.gid = (uint32_t)whole[GID],
		.size = whole[SIZE],
		.ino = whole[INO],
		.mtime_sec = n[MTIME] > -1e15 && n[MTIME] < 1e15 ? (int64_t)n[MTIME] : 0,
	};
	return at;
}

/* One record of the script, without its newline. */
struct record {
	char kind;
	char *text;
	size_t size;
};

static bool next_record(char **at, char *end, const char *mark, struct record *ret)
{
	char *from = memmem(*at, (size_t)(end - *at), mark, ENTRIES_MARK), *to;

	if (!from || end - from < ENTRIES_MARK + 3)
		return false;
	from += ENTRIES_MARK + 1;
	to = memmem(from, (size_t)(end - from), mark, ENTRIES_MARK);
	*at = to ? to : end;
	to = *at;
	*ret = (struct record){ .kind = from[0], .text = from + 2 };
	if (to > ret->text && to[-1] == '\n')
		to--;
	ret->size = to > ret->text ? (size_t)(to - ret->text) : 0;
	if (to < end)
		*to = '\0';
	return true;
}

static void parse_entries_put_entry(struct buf *out, struct proto_entry e,
				    const char *name, const char *link)
{
	static const char zeros[8];
	size_t name_size = strlen(name), link_size = strlen(link), whole;

	if (name_size > 255 || link_size > 4095)
		return;
	e.name_size = (uint16_t)name_size;
	e.link_size = (uint16_t)link_size;
	buf_add(out, &e, sizeof(e));
	buf_add(out, name, name_size + 1);
	buf_add(out, link, link_size + 1);
	whole = sizeof(e) + name_size + 1 + link_size + 1;
	buf_add(out, zeros, (8 - whole % 8) % 8);
}

struct linked {
	const char *name, *target;
};

static int parse_entries_by_name(const void *a, const void *b)
{
	return strcmp(((const struct linked *)a)->name, ((const struct linked *)b)->name);
}

bool entries_all(char *text, size_t size, const char *mark, struct buf *entries)
{
	char *at = text, *end = text + size;
	struct linked *links = NULL;
	size_t n_links = 0, cap = 0;
	AUTO_BUF struct buf stats = BUF_INIT(ENTRIES_MAX);
	struct record r;
	bool whole = false;

	while (next_record(&at, end, mark, &r)) {
		if (r.kind == 's' || r.kind == 'i') {
			buf_add(&stats, &r, sizeof(r));
		} else if (r.kind == 'l') {
			if (n_links == cap) {
				struct linked *more;

				cap = cap ? 2 * cap : 64;
				more = reallocarray(links, cap, sizeof(*links));
				if (!more)
					break;
				links = more;
			}
			links[n_links++] = (struct linked){ r.text, "" };
		} else if (r.kind == 't' && n_links > 0) {
			links[n_links - 1].target = r.text;
		} else if (r.kind == 'e') {
			whole = true;
		}
	}
	if (n_links > 0)
		qsort(links, n_links, sizeof(*links), parse_entries_by_name);
	for (size_t i = 0; i < stats.len / sizeof(r); i++) {
		struct linked key = { 0 }, *found = NULL;
		struct proto_entry e;
		const char *name;

		(void)memcpy(&r, stats.data + i * sizeof(r), sizeof(r));
		name = parse_stat(r.text, r.kind == 's', &e);
		if (!name)
			continue;
		key.name = strncmp(name, "./", 2) == 0 ? name + 2 : name;
		if (strchr(key.name, '/') || !key.name[0] || strcmp(key.name, ".") == 0 ||
		    strcmp(key.name, "..") == 0)
			continue;
		if (S_ISLNK(e.mode) && n_links > 0)
			found = bsearch(&key, links, n_links, sizeof(*links),
					parse_entries_by_name);
		parse_entries_put_entry(entries, e, key.name, found ? found->target : "");
	}
	free(links);
	return whole && !stats.failed && !entries->failed;
}

bool entries_one(char *text, size_t size, const char *mark, struct buf *entry)
{
	char *at = text, *end = text + size;
	const char *target = "";
	struct proto_entry e = { 0 };
	struct record r;
	bool found = false;

	while (next_record(&at, end, mark, &r)) {
		if (r.kind == 's' || r.kind == 'i')
			found = parse_stat(r.text, r.kind == 's', &e);
		else if (r.kind == 't')
			target = r.text;
	}
	if (found)
		parse_entries_put_entry(entry, e, "", S_ISLNK(e.mode) ? target : "");
	return found && !entry->failed && entry->len > 0;
}
