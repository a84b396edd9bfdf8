/* SPDX-License-Identifier: Apache-2.0 */
/* file_read.c - handler: send a file, or a range of it, with sendfile(2) */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "api/v1/file.h"
#include "base/date.h"

struct range {
	uint64_t from, n;
	bool partial;
};

/* Parse digits; return -1 if there are none or too many. */
static int64_t file_read_number(const char **at)
{
	int64_t n = 0;
	int digits = 0;

	for (; **at >= '0' && **at <= '9'; (*at)++, digits++) {
		if (digits >= 18)
			return -1;
		n = n * 10 + (**at - '0');
	}
	return digits > 0 ? n : -1;
}

/*
 * Parse one range of bytes. A header that is invalid or contains several ranges is
 * ignored (RFC 9110, 14.2); -ERANGE: the range is not within the file.
 */
static int range_parse(const char *text, uint64_t size, struct range *ret)
{
	int64_t first, last;

	*ret = (struct range){ .n = size };
	if (!text || strncasecmp(text, "bytes=", 6) != 0)
		return 0;
	text += 6;
	first = file_read_number(&text);
	if (*text++ != '-')
		return 0;
	last = file_read_number(&text);
	if (*text != '\0' || (first < 0 && last < 0) || (last >= 0 && last < first))
		return 0;
	if (first < 0) {
		uint64_t n = (uint64_t)last < size ? (uint64_t)last : size;

		if (n == 0)
			return -ERANGE;
		*ret = (struct range){ .from = size - n, .n = n, .partial = true };
		return 0;
	}
	if ((uint64_t)first >= size)
		return -ERANGE;
	if (last < 0 || (uint64_t)last >= size)
		last = (int64_t)size - 1;
	*ret = (struct range){ .from = (uint64_t)first,
			       .n = (uint64_t)(last - first) + 1,
			       .partial = true };
	return 0;
}

static void refuse_range(struct call *c, uint64_t size)
{
	struct api_error err = { 0 };

	(void)api_error_set(&err, API_ERR_RANGE_NOT_SATISFIABLE, "the file has %ju bytes",
			    (uintmax_t)size);
	api_error_number(&err, "maximum", size);
	call_error(c, &err);
}

void file_send(struct call *c, int fd, const struct stat *st)
{
	const char *match = http_header(c->req, "If-None-Match");
	const char *condition = http_header(c->req, "If-Range");
	uint64_t size = (uint64_t)st->st_size;
	char etag[80], modified[DATE_SIZE], within[80];
	struct range range;
	int r;

	show_etag(etag, st->st_ino, st->st_mtim.tv_sec, (uint32_t)st->st_mtim.tv_nsec,
		  size);
	date_http(modified, st->st_mtim.tv_sec);
	r = range_parse(condition && strcmp(condition, etag) != 0
				? NULL
				: http_header(c->req, "Range"),
			size, &range);
	(void)snprintf(within, sizeof(within), "bytes %ju-%ju/%ju", (uintmax_t)range.from,
		       (uintmax_t)(range.from + range.n - 1), (uintmax_t)size);
	const struct http_header headers[] = {
		{ "X-Request-Id", http_request_id(c->req) },
		{ "Cache-Control", "no-cache" },
		{ "ETag", etag },
		{ "Last-Modified", modified },
		{ "Accept-Ranges", "bytes" },
		{ "Content-Type", "application/octet-stream" },
		{ "X-Content-Type-Options", "nosniff" },
		{ "Content-Range", within },
	};

	if (match &&
	    (strcmp(match, "*") == 0 || http_header_has(c->req, "If-None-Match", etag))) {
		(void)close(fd);
		c->answered = true;
		(void)http_respond(c->req, 304, headers, 4, NULL, 0);
	} else if (r < 0) {
		(void)close(fd);
		refuse_range(c, size);
	} else {
		c->answered = true;
		(void)http_respond_file(c->req, range.partial ? 206 : 200, headers,
					ARRAY_SIZE(headers) - (range.partial ? 0 : 1), fd,
					range.from, range.n);
	}
}

struct reading {
	struct file_call fc;
	bool known; /* the answer will be a copy of this file: */
	struct proto_entry is;
};

static void file_read_on_open(void *ctx, struct files_answer *a,
			      const struct warren_error *err)
{
	const struct reading *k = ctx;
	struct file_call *fc = ctx;
	AUTO_CLOSE int fd = err ? -1 : TAKE_FD(a->fd);
	struct stat st;

	if (err) {
		file_fail(fc->call, err);
		return;
	}
	/*
	 * Check the descriptor that init sent: only a regular file never blocks and has a
	 * reliable size.
	 */
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		call_refuse(fc->call,
			    fd >= 0 && S_ISDIR(st.st_mode) ? API_ERR_IS_A_DIRECTORY
							   : API_ERR_SPECIAL_FILE,
			    "'%s' is not a regular file", fc->path);
		return;
	}
	if (k->known) {
		st.st_ino = k->is.ino;
		st.st_mtim.tv_sec = k->is.mtime_sec;
		st.st_mtim.tv_nsec = k->is.mtime_nsec % 1000000000;
	}
	file_send(fc->call, TAKE_FD(fd), &st);
}

/* Get the metadata of the original file, by which a client recognises it. */
static void file_read_on_look(void *ctx, struct files_answer *a,
			      const struct warren_error *err)
{
	struct reading *k = ctx;
	struct proto_found found;

	if (!file_entry(k->fc.call, a, err, &found))
		return;
	k->known = true;
	k->is = found.is;
	files_open(k->fc.files, -1, k->fc.path, O_RDONLY, 0, file_read_on_open, k);
}

static void file_read_begun(struct file_call *fc)
{
	if (files_are_copies(fc->files))
		files_stat(fc->files, -1, fc->path, true, file_read_on_look, fc);
	else
		files_open(fc->files, -1, fc->path, O_RDONLY, 0, file_read_on_open, fc);
}

void v1_read_file(struct call *c)
{
	struct api_value *v = c->query.v;
	struct reading *k = calloc(1, sizeof(*k));

	if (k)
		k->fc.begun = file_read_begun;
	file_begin(c, k ? &k->fc : NULL, v[V1_READ_FILE_QUERY_PATH].text,
		   v[V1_READ_FILE_QUERY_USER].text);
}
