/* SPDX-License-Identifier: Apache-2.0 */
/* tar_write.c - write entries as ustar, with a pax header before those that do not fit */
#include <inttypes.h>
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

static void tar_write_put_block(struct buf *out, const struct tar_header *is)
{
	struct ustar h = { 0 };
	const unsigned char *bytes = (const unsigned char *)&h;
	unsigned sum = 0;

	(void)memcpy(h.name, is->name, strnlen(is->name, sizeof(h.name)));
	(void)memcpy(h.link, is->link, strnlen(is->link, sizeof(h.link)));
	tar_write_octal(h.mode, sizeof(h.mode), is->mode & 07777);
	tar_write_octal(h.uid, sizeof(h.uid), is->uid);
	tar_write_octal(h.gid, sizeof(h.gid), is->gid);
	tar_write_octal(h.size, sizeof(h.size), is->size);
	tar_write_octal(h.mtime, sizeof(h.mtime),
			is->mtime > 0 ? (uint64_t)is->mtime : 0);
	h.type = is->type;
	(void)memcpy(h.magic, "ustar", 6);
	(void)memcpy(h.version, "00", 2);
	(void)memset(h.sum, ' ', sizeof(h.sum));
	for (size_t i = 0; i < sizeof(h); i++)
		sum += bytes[i];
	tar_write_octal(h.sum, 7, sum);
	buf_add(out, &h, sizeof(h));
}

/* Write a record such as "25 path=...\n". The number includes its own digits. */
void tar_put_record(struct buf *pax, const char *key, const void *value, size_t size)
{
	size_t n = strlen(key) + size + 3, digits = 1, last = 0;
	char number[24];

	while (digits != last) {
		last = digits;
		digits = (size_t)snprintf(number, sizeof(number), "%zu", n + digits);
	}
	buf_printf(pax, "%s %s=", number, key);
	buf_add(pax, value, size);
	buf_puts(pax, "\n");
}

static void tar_write_put_number(struct buf *out, const char *key, uint64_t n,
				 uint64_t fits)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%ju", (uintmax_t)n);
	if (n > fits)
		tar_put_record(out, key, text, strlen(text));
}

/* Whole seconds fit into the header from 1970 to 2242. */
static void tar_write_put_time(struct buf *pax, int64_t sec, uint32_t nsec)
{
	char text[40];
	int n = snprintf(text, sizeof(text), "%jd", (intmax_t)sec);

	if (nsec == 0 && sec >= 0 && sec <= 077777777777)
		return;
	if (nsec > 0) {
		n += snprintf(text + n, sizeof(text) - (size_t)n, ".%09" PRIu32, nsec);
		while (text[n - 1] == '0')
			n--;
	}
	tar_put_record(pax, "mtime", text, (size_t)n);
}

void tar_pad(struct buf *out, uint64_t size)
{
	static const char zeros[TAR_BLOCK];

	buf_add(out, zeros, (size_t)(-size % TAR_BLOCK));
}

void tar_put_header(struct buf *out, const struct tar_header *h, struct buf *pax)
{
	size_t n_name = strlen(h->name), n_link = strlen(h->link);
	struct tar_header x = { .name = "pax", .link = "", .type = 'x', .mode = 0644 };

	if (n_name > sizeof(((struct ustar *)0)->name))
		tar_put_record(pax, "path", h->name, n_name);
	if (n_link > sizeof(((struct ustar *)0)->link))
		tar_put_record(pax, "linkpath", h->link, n_link);
	tar_write_put_number(pax, "size", h->size, 077777777777);
	tar_write_put_number(pax, "uid", h->uid, 07777777);
	tar_write_put_number(pax, "gid", h->gid, 07777777);
	tar_write_put_time(pax, h->mtime, h->mtime_nsec);
	if (pax->len > 0) {
		x.size = pax->len;
		tar_write_put_block(out, &x);
		buf_add(out, pax->data, pax->len);
		tar_pad(out, pax->len);
	}
	tar_write_put_block(out, h);
	out->failed |= pax->failed;
}

void tar_put(struct buf *out, const char *name, const struct proto_entry *is,
	     const char *link, uint64_t size)
{
	AUTO_BUF struct buf pax = BUF_INIT(1U << 20), full = BUF_INIT(1U << 17);
	struct tar_header h = {
		.link = link,
		.type = S_ISDIR(is->mode)   ? '5'
			: S_ISLNK(is->mode) ? '2'
					    : '0',
		.mode = is->mode,
		.uid = is->uid,
		.gid = is->gid,
		.size = size,
		.mtime = is->mtime_sec > 0 ? is->mtime_sec : 0,
	};

	buf_puts(&full, name);
	if (S_ISDIR(is->mode))
		buf_puts(&full, "/");
	out->failed |= full.failed;
	if (full.failed)
		return;
	h.name = full.data;
	tar_put_header(out, &h, &pax);
}

void tar_end(struct buf *out)
{
	static const char zeros[TAR_BLOCK * 2];

	buf_add(out, zeros, sizeof(zeros));
}
