/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry_fetch.c - fetch several blobs at once, hash them while they are written, and
 * resume them
 *
 * The file of a blob always contains its first bytes, and the hash covers exactly these.
 * So if a connection breaks, only bytes that were not written yet are fetched again, and
 * a file that an earlier process left is hashed once and continued. Whether the
 * bytes are correct can be checked only when the blob is complete. If they are not, the
 * blob is fetched once more from the start, because the part from an earlier attempt may
 * be wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "image/registry_internal.h"

#define READ_SIZE (1U << 20)
/* Progress in one try after which the count of retries starts again. */
#define GREW         (1U << 20)
#define NS_PER_MS    1000000ULL
#define SHORT_DIGEST 19 /* "sha256:" and 12 digits, for messages */

enum job_state {
	JOB_WAITING, /* not started, or to be started again at http.not_before */
	JOB_RUNNING, /* http is in progress */
	JOB_DONE,    /* the blob is verified */
};

struct job {
	enum job_state state;
	bool prepared;
	struct registry_blob *blob;
	struct http http;
	EVP_MD_CTX *md;    /* digest of the first blob->done bytes */
	uint64_t at_begin; /* blob->done at the start of this try */
	bool checked;      /* the head of the answer was checked */
	bool restart;      /* the answer does not continue the existing data */
	bool mismatched;   /* the digest was wrong once */
	char noun[40];
	struct warren_error err; /* the reason for which the sink refused */
};

static const char *const blob_types[] = { "*/*", NULL };

static void registry_fetch_job_done(struct job *job)
{
	http_done(&job->http);
	EVP_MD_CTX_free(job->md);
	job->md = NULL;
}

static int registry_fetch_write_at(int fd, const char *data, size_t n, uint64_t offset)
{
	while (n > 0) {
		ssize_t w = pwrite(fd, data, n, (off_t)offset);

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0)
			return -errno;
		data += w;
		n -= (size_t)w;
		offset += (uint64_t)w;
	}
	return 0;
}

static int start_over(struct job *job, struct warren_error *err)
{
	if (ftruncate(job->blob->fd, 0) < 0)
		return error_errno(err, errno, "truncate the file of the %s", job->noun);
	if (EVP_DigestInit_ex(job->md, EVP_sha256(), NULL) != 1)
		return error_errno(err, ENOMEM, "hash the %s", job->noun);
	job->blob->done = 0;
	job->http.offset = 0;
	return 0;
}

/* Is it a range such as "bytes 100-199/200" that continues at @offset? */
static bool range_continues(const char *range, uint64_t offset)
{
	char start[40];

	(void)snprintf(start, sizeof(start), "bytes %ju-", (uintmax_t)offset);
	return strncasecmp(range, start, strlen(start)) == 0;
}

/* The first bytes have arrived: check the answer. */
static int check_head(struct job *job)
{
	struct http *h = &job->http;
	struct registry_blob *blob = job->blob;
	curl_off_t length = -1;
	uint64_t expected;

	job->checked = true;
	if (h->status != 200 && h->status != 206)
		return error_set(&job->err, EPROTO,
				 "the registry answered %ld for the %s", h->status,
				 job->noun);
	if (h->status == 206 &&
	    (h->offset == 0 || !range_continues(h->range, h->offset))) {
		job->restart = true;
		return -EAGAIN;
	}
	if (h->status == 200 && blob->done > 0) { /* the server does not support ranges */
		int code = start_over(job, &job->err);

		if (code < 0)
			return code;
		job->at_begin = 0;
	}
	expected = blob->size - blob->done;
	(void)curl_easy_getinfo(h->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
	if (length >= 0 && (uint64_t)length != expected)
		return error_set(&job->err, EBADMSG,
				 "the %s has %ju bytes, but the manifest says %ju",
				 job->noun, (uintmax_t)length + blob->done,
				 (uintmax_t)blob->size);
	return 0;
}

static int on_blob(struct http *h, const char *data, size_t n)
{
	struct job *job = h->sink_ctx;
	struct registry_blob *blob = job->blob;
	int code = job->checked ? 0 : check_head(job);

	if (code < 0)
		return code;
	if (n > blob->size - blob->done)
		return error_set(
			&job->err, EBADMSG,
			"the %s is larger than the %ju bytes stated in the manifest",
			job->noun, (uintmax_t)blob->size);
	code = registry_fetch_write_at(blob->fd, data, n, blob->done);
	if (code < 0)
		return error_errno(&job->err, -code, "write the %s", job->noun);
	if (EVP_DigestUpdate(job->md, data, n) != 1)
		return error_errno(&job->err, ENOMEM, "hash the %s", job->noun);
	blob->done += n;
	return 0;
}

/* All bytes have arrived. Return 1 if they are correct, or 0 to start again. */
static int registry_fetch_verify(struct job *job, struct warren_error *err)
{
	unsigned char sum[EVP_MAX_MD_SIZE];
	char digest[REF_DIGEST_LEN + 1];
	int code;

	if (EVP_DigestFinal_ex(job->md, sum, NULL) != 1)
		return error_errno(err, ENOMEM, "hash the %s", job->noun);
	digest_text(sum, digest);
	if (strcmp(digest, job->blob->digest) == 0) {
		job->blob->verified = true;
		job->state = JOB_DONE;
		registry_fetch_job_done(job);
		return 1;
	}
	code = start_over(job, err);
	if (code < 0)
		return code;
	if (job->mismatched)
		return error_set(err, EBADMSG,
				 "the %s that the registry sent has the digest %s",
				 job->noun, digest);
	job->mismatched = true;
	job->state = JOB_WAITING;
	job->http.not_before = 0;
	return 0;
}

/* Hash the data that an earlier try left in the file. */
static int hash_file(struct job *job, uint64_t size, struct warren_error *err)
{
	AUTO_FREE char *data = malloc(READ_SIZE);
	struct registry_blob *blob = job->blob;

	if (!data)
		return error_errno(err, ENOMEM, "read the %s", job->noun);
	while (blob->done < size) {
		ssize_t n = pread(blob->fd, data, READ_SIZE, (off_t)blob->done);
		int code;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_errno(err, errno, "read the %s", job->noun);
		if (n == 0)
			break;
		if (EVP_DigestUpdate(job->md, data, (size_t)n) != 1)
			return error_errno(err, ENOMEM, "hash the %s", job->noun);
		blob->done += (uint64_t)n;
		/* The other downloads continue. */
		code = http_pump(job->http.reg, 0, err);
		if (code < 0)
			return code;
	}
	return 0;
}

static int registry_fetch_prepare(struct job *job, struct registry *r,
				  struct warren_error *err)
{
	struct registry_blob *blob = job->blob;
	struct stat st;
	int code = http_init(&job->http, r, job->noun, err);

	if (code < 0)
		return code;
	job->prepared = true;
	job->http.accept = blob_types;
	job->http.sink = on_blob;
	job->http.sink_ctx = job;
	job->md = EVP_MD_CTX_new();
	if (asprintf(&job->http.path, "/v2/%s/blobs/%s", r->ref.name, blob->digest) < 0)
		job->http.path = NULL;
	if (!job->md || !job->http.path)
		return error_errno(err, ENOMEM, "fetch the %s", job->noun);
	if (fstat(blob->fd, &st) < 0)
		return error_errno(err, errno, "inspect the file of the %s", job->noun);
	if (!S_ISREG(st.st_mode))
		return error_set(err, EINVAL, "the target of the %s is not a file",
				 job->noun);
	if ((uint64_t)st.st_size > blob->size || st.st_size == 0)
		return start_over(job, err);
	if (EVP_DigestInit_ex(job->md, EVP_sha256(), NULL) != 1)
		return error_errno(err, ENOMEM, "hash the %s", job->noun);
	return hash_file(job, (uint64_t)st.st_size, err);
}

static int job_begin(struct job *job, struct registry *r, struct warren_error *err)
{
	int code;

	if (!job->prepared) {
		code = registry_fetch_prepare(job, r, err);
		/* The file is already complete; if it is wrong, start again. */
		if (code == 0 && job->blob->done == job->blob->size)
			code = registry_fetch_verify(job, err);
		if (code != 0)
			return code < 0 ? code : 0;
	}
	job->checked = job->restart = false;
	job->at_begin = job->blob->done;
	job->http.offset = job->blob->done;
	job->state = JOB_RUNNING;
	return http_begin(&job->http, err);
}

/* The exchange ended without the complete blob, or with wrong data. */
static int registry_fetch_judge(struct job *job, struct warren_error *err)
{
	struct http *h = &job->http;
	struct registry_blob *blob = job->blob;
	enum http_verdict verdict;
	int code;

	if (blob->done - job->at_begin >= GREW)
		h->retries = 0;
	if (job->restart ||
	    (h->result == CURLE_OK && h->status == 416 && h->offset > 0)) {
		code = start_over(job, err);
		if (code < 0)
			return code;
		(void)error_set(err, EPROTO, "the registry cannot resume the %s",
				job->noun);
		verdict = http_retry(h, err);
	} else {
		verdict = http_judge(h, err);
	}
	if (verdict == HTTP_OK) {
		(void)error_set(err, EBADMSG, "the %s ends after %ju of %ju bytes",
				job->noun, (uintmax_t)blob->done, (uintmax_t)blob->size);
		verdict = http_retry(h, err);
	}
	if (verdict == HTTP_FAILED)
		return -err->code;
	if (verdict == HTTP_AGAIN)
		h->not_before = 0;
	*err = (struct warren_error)WARREN_ERROR_INIT;
	job->state = JOB_WAITING;
	return 0;
}

static int job_finish(struct job *job, struct warren_error *err)
{
	int code;

	if (job->err.code) {
		*err = job->err;
		/* The existing data is not part of the blob. */
		if (err->code == EBADMSG && ftruncate(job->blob->fd, 0) == 0)
			job->blob->done = 0;
		return -err->code;
	}
	if (job->blob->done < job->blob->size || job->restart)
		return registry_fetch_judge(job, err);
	code = registry_fetch_verify(job, err);
	return code < 0 ? code : 0;
}

/*
 * Start the jobs that may start. Return how many are not done; *@wait_ms is the time
 * until the next check.
 */
static int begin_jobs(struct registry *r, struct job *jobs, size_t n, unsigned *wait_ms,
		      struct warren_error *err)
{
	unsigned open = 0;

	*wait_ms = REGISTRY_WAKE_MS;
	for (size_t i = 0; i < n && open < r->parallel; i++) {
		struct job *job = &jobs[i];
		uint64_t now = clock_now();
		int code = 0;

		if (job->state == JOB_WAITING && job->http.not_before <= now)
			code = job_begin(job, r, err);
		else if (job->state == JOB_WAITING &&
			 (job->http.not_before - now) / NS_PER_MS + 1 < *wait_ms)
			*wait_ms =
				(unsigned)((job->http.not_before - now) / NS_PER_MS) + 1;
		if (code < 0)
			return code;
		if (job->state == JOB_WAITING && job->http.not_before == 0)
			*wait_ms = 0;
		open += job->state != JOB_DONE;
	}
	return (int)open;
}

static int run_jobs(struct registry *r, struct job *jobs, size_t n,
		    struct warren_error *err)
{
	for (;;) {
		unsigned wait_ms;
		int code = begin_jobs(r, jobs, n, &wait_ms, err);

		if (code <= 0)
			return code;
		code = http_pump(r, wait_ms, err);
		for (size_t i = 0; code == 0 && i < n; i++)
			if (jobs[i].state == JOB_RUNNING && jobs[i].http.finished)
				code = job_finish(&jobs[i], err);
		if (code < 0)
			return code;
	}
}

int registry_fetch(struct registry *r, struct registry_blob *blobs, size_t n,
		   struct warren_error *err)
{
	AUTO_FREE struct job *jobs = calloc(n ? n : 1, sizeof(*jobs));
	int code = 0;

	if (!jobs)
		return error_errno(err, ENOMEM, "pull %.240s", r->text);
	for (size_t i = 0; i < n && code == 0; i++) {
		blobs[i].done = 0;
		blobs[i].verified = false;
		jobs[i].blob = &blobs[i];
		if (!ref_digest_valid(blobs[i].digest))
			code = error_set(err, EINVAL, "'%.80s' is not a digest",
					 blobs[i].digest);
		(void)snprintf(jobs[i].noun, sizeof(jobs[i].noun), "blob %.*s",
			       SHORT_DIGEST, blobs[i].digest);
	}
	r->cancelled = false;
	r->blobs = blobs;
	r->n_blobs = n;
	if (code == 0)
		code = run_jobs(r, jobs, n, err);
	for (size_t i = 0; i < n; i++)
		registry_fetch_job_done(&jobs[i]);
	if (code == 0 && r->progress && r->progress(r->ctx, blobs, n) != 0)
		code = error_set(err, ECANCELED, "cancelled");
	r->blobs = NULL;
	r->n_blobs = 0;
	if (code < 0 && guard_failed(r, err) < 0)
		return error_wrap(err, "pull %.240s", r->text);
	return 0;
}
