/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry_pull.c - fetch the manifest and the blobs of a reference into a directory
 *
 *	registry-pull [OPTION...] REF DIRECTORY
 *
 * For tests of the registry client. Prints the type and the digest of the manifest
 * and one line for each blob; a failure is one line on stderr: "errno: sentence".
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "image/registry.h"

#define BLOBS_MAX    256
#define INSECURE_MAX 8

static struct settings {
	struct registry_options options;
	const char *insecure[INSECURE_MAX + 1];
	bool cancels;
	uint64_t cancel_after; /* bytes */
	unsigned calls;        /* number of progress calls */
} settings;

static const struct option options[] = {
	{ "config", required_argument, NULL, 'c' },
	{ "ca", required_argument, NULL, 'a' },
	{ "insecure", required_argument, NULL, 'i' },
	{ "parallel", required_argument, NULL, 'p' },
	{ "backoff", required_argument, NULL, 'b' },
	{ "stall", required_argument, NULL, 's' },
	{ "cancel-after", required_argument, NULL, 'x' },
	{ 0 },
};

static int on_progress(void *ctx, const struct registry_blob *blobs, size_t n)
{
	struct settings *s = ctx;
	uint64_t done = 0;

	s->calls++;
	for (size_t i = 0; i < n; i++)
		done += blobs[i].done;
	return s->cancels && done >= s->cancel_after;
}

static int parse_options(int argc, char **argv)
{
	size_t n_insecure = 0;
	int c;

	settings.options.insecure = settings.insecure;
	settings.options.progress = on_progress;
	settings.options.ctx = &settings;
	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (c == 'c')
			settings.options.docker_config = optarg;
		else if (c == 'a')
			settings.options.ca_file = optarg;
		else if (c == 'i' && n_insecure < INSECURE_MAX)
			settings.insecure[n_insecure++] = optarg;
		else if (c == 'p')
			settings.options.parallel = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'b')
			settings.options.backoff_ms = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 's')
			settings.options.stall_s = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'x') {
			settings.cancels = true;
			settings.cancel_after = strtoull(optarg, NULL, 10);
		} else
			return -1;
	}
	return argc - optind == 2 ? 0 : -1;
}

static int add_blob(const json_t *descriptor, int dir, struct registry_blob *b,
		    struct warren_error *err)
{
	const char *digest = json_string_value(json_object_get(descriptor, "digest"));

	if (!digest || !ref_digest_valid(digest))
		return error_set(err, EINVAL, "a blob of the manifest has no digest");
	b->digest = digest;
	b->size = (uint64_t)json_integer_value(json_object_get(descriptor, "size"));
	b->fd = openat(dir, digest + 7, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	return b->fd < 0 ? error_errno(err, errno, "create %s", digest) : 0;
}

static int fetch_blobs(struct registry *r, const json_t *manifest, int dir,
		       struct warren_error *err)
{
	const json_t *layers = json_object_get(manifest, "layers");
	static struct registry_blob blobs[BLOBS_MAX];
	size_t n = 0;
	int code = add_blob(json_object_get(manifest, "config"), dir, &blobs[n++], err);

	for (size_t i = 0; code == 0 && i < json_array_size(layers) && n < BLOBS_MAX; i++)
		code = add_blob(json_array_get(layers, i), dir, &blobs[n++], err);
	if (code == 0)
		code = registry_fetch(r, blobs, n, err);
	for (size_t i = 0; i < n; i++) {
		(void)printf("%s %" PRIu64 " of %" PRIu64 "%s\n", blobs[i].digest,
			     blobs[i].done, blobs[i].size,
			     blobs[i].verified ? " verified" : "");
		close_p(&blobs[i].fd);
	}
	return code;
}

static int save_manifest(int dir, const struct buf *body, struct warren_error *err)
{
	AUTO_CLOSE int fd = openat(dir, "manifest.json",
				   O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int code = fd < 0 ? -errno : fd_write_all(fd, body->data, body->len);

	return code < 0 ? error_errno(err, -code, "write the manifest") : 0;
}

/* Get the manifest; for an index, the first one in its list. */
static int pull(struct registry *r, const char *what, int dir, struct warren_error *err)
{
	AUTO_BUF struct buf body = BUF_INIT(0);
	char type[128], digest[REF_DIGEST_LEN + 1];
	const json_t *first;
	json_t *manifest;
	int code = registry_manifest(r, what, &body, type, digest, err);

	if (code < 0)
		return code;
	(void)printf("%s %s\n", type, digest);
	code = save_manifest(dir, &body, err);
	if (code < 0)
		return code;
	manifest = json_loadb(body.data, body.len, 0, NULL);
	first = json_array_get(json_object_get(manifest, "manifests"), 0);
	if (first)
		code = pull(r, json_string_value(json_object_get(first, "digest")), dir,
			    err);
	else
		code = fetch_blobs(r, manifest, dir, err);
	json_decref(manifest);
	return code;
}

int main(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct registry *r = NULL;
	struct ref ref;
	int code, dir;

	if (parse_options(argc, argv) < 0) {
		(void)fprintf(stderr, "usage: registry-pull [OPTION...] REF DIRECTORY\n");
		return 2;
	}
	dir = open(argv[optind + 1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0) {
		perror(argv[optind + 1]);
		return 2;
	}
	code = ref_parse(argv[optind], &ref, &err);
	if (code == 0)
		code = registry_open(&ref, &settings.options, &r, &err);
	if (code == 0)
		code = pull(r, ref.digest[0] ? ref.digest : ref.tag, dir, &err);
	r = registry_close(r);
	(void)close(dir);
	(void)printf("progress was called %u times\n", settings.calls);
	if (code < 0 && code != -err.code)
		(void)fprintf(stderr, "returned %d, with: ", code);
	if (code < 0)
		(void)fprintf(stderr, "%s: %s\n", strerrorname_np(err.code), err.msg);
	return code < 0 ? 1 : 0;
}
