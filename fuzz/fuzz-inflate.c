/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-inflate.c - Warren decompresses gzip to the same bytes as another implementation
 */
#include <archive.h>
#include <archive_entry.h>
#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/fd.h"
#include "image/unpack_internal.h"

#define OUT_MAX (8U << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Decompress with libarchive, which uses zlib. Return the number of bytes, or -1 for an
 * error. */
static ssize_t other(const uint8_t *data, size_t size, char *out)
{
	struct archive *a = archive_read_new();
	struct archive_entry *e;
	ssize_t n = -1;

	if (archive_read_support_format_raw(a) == ARCHIVE_OK &&
	    archive_read_append_filter(a, ARCHIVE_FILTER_GZIP) == ARCHIVE_OK &&
	    archive_read_open_memory(a, data, size) == ARCHIVE_OK &&
	    archive_read_next_header(a, &e) == ARCHIVE_OK)
		n = archive_read_data(a, out, OUT_MAX);
	(void)archive_read_free(a);
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char ours[OUT_MAX], theirs[OUT_MAX];
	static const struct rlimit limit = { OUT_MAX, RLIM_INFINITY };
	AUTO_CLOSE int in = memfd_create("in", MFD_CLOEXEC);
	AUTO_CLOSE int out = memfd_create("out", MFD_CLOEXEC);
	struct warren_error err = WARREN_ERROR_INIT;
	ssize_t n, m;

	/* Decompression bombs end with -EFBIG. */
	(void)signal(SIGXFSZ, SIG_IGN);
	(void)setrlimit(RLIMIT_FSIZE, &limit);
	if (in < 0 || out < 0 || fd_write_all(in, data, size) < 0 ||
	    lseek(in, 0, SEEK_SET) < 0)
		return 0;
	if (unpack_inflate(in, out, &err) < 0) {
		assert(err.code > 0 && err.msg[0]);
		return 0;
	}
	if (unpack_sniff(data, size) != UNPACK_GZIP)
		return 0;
	n = pread(out, ours, sizeof(ours), 0);
	m = other(data, size, theirs);
	/* libarchive refuses unknown flags in a header; other implementations do not. */
	if (m < 0)
		return 0;
	assert(m <= n && memcmp(ours, theirs, (size_t)m) == 0);
	return 0;
}
