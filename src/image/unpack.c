/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unpack.c - the process in the middle of the pipeline: count, hash and forward bytes;
 * wait for all processes
 *
 * Bytes are read into this process's memory, hashed there, and written from there. tee(2)
 * would save a copy, but pages in a pipe may still belong to the sender (vmsplice(2)): a
 * compromised decompressor could make this process hash one layer and unpack another.
 *
 * An uncompressed archive that no other process can change needs no pipe: the untar
 * process has a descriptor of the file with its own position, and this process hashes the
 * file at the same time.
 *
 * This process keeps the read end of the untar process's pipe open, so that a write never
 * raises SIGPIPE; a pidfd shows when the untar process has ended.
 */
#include "image/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hex.h"
#include "image/unpack_internal.h"

struct pipeline {
	struct unpack_child inflate, untar;
	int in; /* the uncompressed archive, from the decompressor or the file itself */
	int out, drain; /* both ends of the pipe to untar; -1: untar reads the file itself
			 */
	int wait;       /* time to wait for the next byte, in ms; -1: no limit */
	const struct unpack_watch *watch; /* NULL: no progress is reported */
	EVP_MD_CTX *digest;               /* NULL: not needed */
	uint64_t bytes, max;
	char *block;
};

#define WATCH_MS 100
#define ENDED    1 /* untar ended early: it has reported the reason */

static struct pipeline new_pipeline(uint64_t max, const struct unpack_watch *watch)
{
	return (struct pipeline){ .inflate = UNPACK_CHILD_INIT,
				  .untar = UNPACK_CHILD_INIT,
				  .in = -1,
				  .out = -1,
				  .drain = -1,
				  .max = max,
				  .watch = watch };
}

static void pipeline_done(struct pipeline *p)
{
	unpack_child_done(&p->inflate);
	unpack_child_done(&p->untar);
	close_p(&p->in);
	close_p(&p->out);
	close_p(&p->drain);
	EVP_MD_CTX_free(p->digest);
	free(p->block);
}

#define AUTO_PIPELINE CLEANUP(pipeline_done)

static int unpack_make_pipe(int ret[2], struct warren_error *err)
{
	if (pipe2(ret, O_CLOEXEC) < 0)
		return error_errno(err, errno, "create a pipe");
	/* The maximum size without privileges; a smaller one works too. */
	(void)fcntl(ret[0], F_SETPIPE_SZ, UNPACK_PIPE);
	return 0;
}

/* ---------------------------------------------------------------- forwarding bytes */

static int check_watch(const struct unpack_watch *watch, struct warren_error *err)
{
	return watch && watch->cancelled(watch->ctx)
		       ? error_set(err, ECANCELED, "cancelled")
		       : 0;
}

int unpack_poll(struct pollfd *fds, size_t n, int ms, const struct unpack_watch *watch,
		struct warren_error *err)
{
	for (int left = ms;;) {
		int slice = left < 0 || left > WATCH_MS ? WATCH_MS : left;
		int r = poll(fds, n, slice);

		if (r < 0 && errno != EINTR)
			return error_errno(err, errno, "poll");
		if (r > 0)
			return r;
		if (check_watch(watch, err) < 0)
			return -ECANCELED;
		if (r == 0 && left >= 0)
			left -= slice;
		if (left == 0)
			return 0;
	}
}

/* Wait until @fd is ready, or untar has ended (ENDED). */
static int unpack_await(const struct pipeline *p, int fd, short events, int ms,
			struct warren_error *err)
{
	struct pollfd fds[2] = { { .fd = fd, .events = events },
				 { .fd = p->untar.pidfd, .events = POLLIN } };
	int r;

	r = unpack_poll(fds, 2, ms, p->watch, err);
	if (r < 0)
		return r;
	if (r == 0)
		return error_set(err, ETIMEDOUT, "%s: the process hangs",
				 events == POLLIN ? p->inflate.name : p->untar.name);
	return fds[1].revents ? ENDED : 0;
}

/*
 * Return the number of bytes in the block, 0 at the end, or -errno; set *@ended if untar
 * has ended.
 */
static ssize_t image_unpack_take(struct pipeline *p, bool *ended,
				 struct warren_error *err)
{
	ssize_t n;

	for (;;) {
		if (p->inflate.pid > 0) {
			int r = unpack_await(p, p->in, POLLIN, p->wait, err);

			*ended = r == ENDED;
			if (r != 0)
				return r < 0 ? r : 0;
		}
		n = read(p->in, p->block, UNPACK_BLOCK);
		if (n >= 0)
			return n;
		if (errno != EINTR)
			return error_errno(err, errno, "read the archive");
	}
}

static int unpack_give(struct pipeline *p, size_t n, struct warren_error *err)
{
	const char *data = p->block;

	while (n > 0) {
		ssize_t w = write(p->out, data, n);
		int r;

		if (w > 0) {
			data += w;
			n -= (size_t)w;
			continue;
		}
		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0 && errno != EAGAIN)
			return error_errno(err, errno, "pass on the archive");
		r = unpack_await(p, p->out, POLLOUT, UNPACK_STALL, err);
		if (r != 0)
			return r;
	}
	return 0;
}

static int unpack_pump(struct pipeline *p, struct warren_error *err)
{
	for (;;) {
		bool ended = false;
		ssize_t n = image_unpack_take(p, &ended, err);
		int r;

		if (n <= 0)
			return ended ? ENDED : (int)n;
		if (check_watch(p->watch, err) < 0)
			return -ECANCELED;
		p->bytes += (uint64_t)n;
		if (p->bytes > p->max)
			return error_set(err, EFBIG,
					 "the archive is larger than %ju bytes",
					 (uintmax_t)p->max);
		if (p->digest && EVP_DigestUpdate(p->digest, p->block, (size_t)n) != 1)
			return error_set(err, EIO, "SHA-256 failed");
		r = p->out < 0 ? 0 : unpack_give(p, (size_t)n, err);
		if (r != 0)
			return r;
	}
}

/* ---------------------------------------------------------- processes of the pipeline */

/* Open the same file read-only, with a separate position; -errno if not permitted. */
static int unpack_open_again(int fd)
{
	char path[32];
	int again;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDONLY | O_CLOEXEC);
	return again < 0 ? -errno : again;
}

/*
 * Open a file again, read-only, whatever the caller's descriptor allows, and with its own
 * position. Determine whether a process is needed to decompress it.
 */
static int open_blob(int blob, bool *ret_regular, bool *ret_plain,
		     struct warren_error *err)
{
	char head[UNPACK_SNIFF];
	AUTO_CLOSE int fd = -1;
	struct stat st;

	if (fstat(blob, &st) < 0)
		return error_errno(err, errno, "inspect the archive");
	*ret_regular = S_ISREG(st.st_mode);
	*ret_plain = false;
	fd = *ret_regular ? unpack_open_again(blob) : -1;
	/*
	 * It is a pipe, or a file that can be read through this descriptor but not
	 * opened.
	 */
	if (fd < 0)
		fd = fcntl(blob, F_DUPFD_CLOEXEC, 3);
	if (fd < 0 || (*ret_regular && lseek(fd, 0, SEEK_SET) < 0))
		return error_errno(err, errno, "open the archive");
	if (*ret_regular) {
		ssize_t n = pread(fd, head, sizeof(head), 0);

		*ret_plain = n >= 0 && unpack_sniff(head, (size_t)n) == UNPACK_PLAIN;
	}
	return TAKE_FD(fd);
}

static int start_inflate(struct pipeline *p, int blob, struct warren_error *err)
{
	AUTO_CLOSE int out = -1;
	int ends[2], r = unpack_make_pipe(ends, err);

	if (r < 0)
		return r;
	p->in = ends[0];
	out = ends[1];
	return unpack_child_start(
		&(struct unpack_job){ "decompress", blob, out, -1, NULL }, &p->inflate,
		err);
}

static int start_untar(struct pipeline *p, int in, int dir,
		       const struct unpack_rules *rules, struct warren_error *err)
{
	return unpack_child_start(&(struct unpack_job){ "unpack", in, -1, dir, rules },
				  &p->untar, err);
}

/* Start untar with a pipe, which is fed from the file or from the decompressor. */
static int start_piped(struct pipeline *p, int *blob, bool plain, int dir,
		       const struct unpack_rules *rules, struct warren_error *err)
{
	int ends[2], r = unpack_make_pipe(ends, err);

	if (r < 0)
		return r;
	p->drain = ends[0];
	p->out = ends[1];
	if (fcntl(p->out, F_SETFL, O_NONBLOCK) < 0)
		return error_errno(err, errno, "create a pipe");
	r = start_untar(p, p->drain, dir, rules, err);
	if (r == 0 && !plain)
		return start_inflate(p, *blob, err);
	p->in = TAKE_FD(*blob);
	return r;
}

static int unpack_start(struct pipeline *p, int archive, bool settled, int dir,
			const struct unpack_rules *rules, struct warren_error *err)
{
	AUTO_CLOSE int blob = -1, again = -1;
	bool regular = false, plain = false;

	p->block = malloc(UNPACK_BLOCK);
	if (!p->block)
		return error_errno(err, ENOMEM, "begin");
	blob = open_blob(archive, &regular, &plain, err);
	if (blob < 0)
		return blob;
	p->wait = regular ? UNPACK_STALL : -1;
	if (settled && regular && plain)
		again = unpack_open_again(blob);
	if (again < 0)
		return start_piped(p, &blob, plain, dir, rules, err);
	p->in = TAKE_FD(blob);
	return start_untar(p, again, dir, rules, err);
}

static int unpack_run(struct pipeline *p, struct unpack_report *ret,
		      struct warren_error *err)
{
	struct unpack_report ignored;
	int r = unpack_pump(p, err);

	if (r == ENDED) {
		r = unpack_child_finish(&p->untar, p->watch, &ignored, err);
		return r < 0 ? r
			     : error_set(err, EPROTO, "unpack: the process ended early");
	}
	/* If decompression failed, untar must not see the end of the archive. */
	if (r == 0 && p->inflate.pid > 0)
		r = unpack_child_finish(&p->inflate, p->watch, &ignored, err);
	if (r < 0)
		return r;
	if (p->out >= 0)
		(void)close(TAKE_FD(p->out));
	return unpack_child_finish(&p->untar, p->watch, ret, err);
}

static int begin_digest(struct pipeline *p, struct warren_error *err)
{
	p->digest = EVP_MD_CTX_new();
	if (!p->digest || EVP_DigestInit_ex(p->digest, EVP_sha256(), NULL) != 1)
		return error_set(err, ENOMEM, "SHA-256 is not available");
	return 0;
}

static int end_digest(struct pipeline *p, const char *expect,
		      char ret[REF_DIGEST_LEN + 1], struct warren_error *err)
{
	unsigned char sum[EVP_MAX_MD_SIZE];
	unsigned n = 0;

	if (EVP_DigestFinal_ex(p->digest, sum, &n) != 1 || n != 32)
		return error_set(err, EIO, "SHA-256 failed");
	(void)hex_encode(sum, n, stpcpy(ret, "sha256:"));
	if (expect && strcmp(ret, expect) != 0)
		return error_set(
			err, EBADMSG,
			"the unpacked archive has the digest %s, but its image says "
			"%.*s",
			ret, REF_DIGEST_LEN, expect);
	return 0;
}

int unpack_archive(int blob, int dir, const struct unpack_options *o,
		   struct unpack_result *ret, struct warren_error *err)
{
	AUTO_PIPELINE struct pipeline p = new_pipeline(o->max_bytes, o->watch);
	const struct unpack_rules rules = { .overlay = o->overlay,
					    .own_ids = unpack_own_ids(),
					    .entries_max = UNPACK_ENTRIES_MAX };
	struct unpack_report report = { 0 };
	struct unpack_result result = { 0 };
	int r = begin_digest(&p, err);

	if (r == 0)
		r = unpack_start(&p, blob, o->settled, dir, &rules, err);
	if (r == 0)
		r = unpack_run(&p, &report, err);
	if (r == 0)
		r = end_digest(&p, o->diff_id, result.diff_id, err);
	if (r < 0)
		return r;
	result.bytes = p.bytes;
	result.entries = report.entries;
	result.skipped = report.skipped;
	result.remapped = report.remapped;
	*ret = result;
	return 0;
}

int unpack_spool(int archive, int dir, uint64_t max_bytes,
		 const struct unpack_watch *watch, struct warren_error *err)
{
	AUTO_PIPELINE struct pipeline p = new_pipeline(max_bytes, watch);
	const struct unpack_rules rules = { .spool = true,
					    .entries_max = UNPACK_SPOOLED };
	struct unpack_report report;
	int r = unpack_start(&p, archive, false, dir, &rules, err);

	return r < 0 ? r : unpack_run(&p, &report, err);
}
