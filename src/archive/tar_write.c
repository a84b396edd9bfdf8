/* SPDX-License-Identifier: Apache-2.0 */
/* tar_write.c - write entries as ustar, with a pax header before those that do not fit */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "archive/tar.h"

/* The POSIX format: all fields are text, numbers are octal. */
struct ustar {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8];
	char type, link[100], magic[6], version[2], user[32], group[32];
	char major[8], minor[8], prefix[155], pad[12];
};

_Static_assert(sizeof(struct ustar) == TAR_BLOCK, "a header is a block");

static void tar_write_octal(char *out, size_t size, uint64_t n)
{
	for (size_t i = size - 1; i-- > 0; n >>= 3)
		out[i] = (char)('0' + (n & 7));
	out[size - 1] = '\0';
}

static void tar_write_put_header(struct buf *out, const char *name, const char *link,
				 const struct proto_entry *is, char type, uint64_t size)
{
	struct ustar h = { 0 };
	const unsigned char *bytes = (const unsigned char *)&h;
	unsigned sum = 0;

	(void)memcpy(h.name, name, strnlen(name, sizeof(h.name)));
	(void)memcpy(h.link, link, strnlen(link, sizeof(h.link)));
	tar_write_octal(h.mode, sizeof(h.mode), is->mode & 07777);
	tar_write_octal(h.uid, sizeof(h.uid), is->uid);
	tar_write_octal(h.gid, sizeof(h.gid), is->gid);
	tar_write_octal(h.size, sizeof(h.size), size);
	tar_write_octal(h.mtime, sizeof(h.mtime),
			is->mtime_sec > 0 ? (uint64_t)is->mtime_sec : 0);
	h.type = type;
	(void)memcpy(h.magic, "ustar", 6);
	(void)memcpy(h.version, "00", 2);
	(void)memset(h.sum, ' ', sizeof(h.sum));
	for (size_t i = 0; i < sizeof(h); i++)
		sum += bytes[i];
	tar_write_octal(h.sum, 7, sum);
	buf_add(out, &h, sizeof(h));
}

/* "25 path=...\n": the number counts itself, too. */
static void tar_write_put_record(struct buf *out, const char *key, const char *value)
{
	size_t n = strlen(key) + strlen(value) + 3, digits = 1, last = 0;
	char number[24];

	while (digits != last) {
		last = digits;
		digits = (size_t)snprintf(number, sizeof(number), "%zu", n + digits);
	}
	buf_puts(out, number);
	buf_puts(out, " ");
	buf_puts(out, key);
	buf_puts(out, "=");
	buf_puts(out, value);
	buf_puts(out, "\n");
}

static void tar_write_put_number(struct buf *out, const char *key, uint64_t n,
				 uint64_t fits)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%ju", (uintmax_t)n);
	if (n > fits)
		tar_write_put_record(out, key, text);
}

void tar_pad(struct buf *out, uint64_t size)
{
	static const char zeros[TAR_BLOCK];

	buf_add(out, zeros, (size_t)(-size % TAR_BLOCK));
}

void tar_put(struct buf *out, const char *name, const struct proto_entry *is,
	     const char *link, uint64_t size)
{
	AUTO_BUF struct buf pax = BUF_INIT(1U << 20);
	bool directory = S_ISDIR(is->mode);
	AUTO_BUF struct buf full = BUF_INIT(1U << 17);
	struct proto_entry none = { .mode = 0644 };

	buf_puts(&full, name);
	if (directory)
		buf_puts(&full, "/");
	if (full.len > sizeof(((struct ustar *)0)->name))
		tar_write_put_record(&pax, "path", full.data);
	if (strlen(link) > sizeof(((struct ustar *)0)->link))
		tar_write_put_record(&pax, "linkpath", link);
	tar_write_put_number(&pax, "size", size, 077777777777);
	tar_write_put_number(&pax, "uid", is->uid, 07777777);
	tar_write_put_number(&pax, "gid", is->gid, 07777777);
	if (pax.len > 0) {
		tar_write_put_header(out, "pax", "", &none, 'x', pax.len);
		buf_add(out, pax.data, pax.len);
		tar_pad(out, pax.len);
	}
	tar_write_put_header(out, full.data, link, is,
			     directory           ? '5'
			     : S_ISLNK(is->mode) ? '2'
						 : '0',
			     size);
	out->failed |= pax.failed || full.failed;
}

void tar_end(struct buf *out)
{
	static const char zeros[TAR_BLOCK * 2];

	buf_add(out, zeros, sizeof(zeros));
}
