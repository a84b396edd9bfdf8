/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pull.c - get a missing image: load it from an archive, or pull it
 *
 * In both cases, the daemon answers with a stream of JSON values, one per line. The last
 * one may be an error even if the status reports success.
 */
#include "shim/docker/docker.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "image/ref.h"

#define LINE_MAX_ (64U << 10)

/* The last messages of a stream. */
struct stream {
	struct buf line;
	char failed[320]; /* "": no error */
	int from;         /* file with data to send, or -1 */
	struct shim_driver_pull *watch;
};

/* Map the daemon's words for the progress of a layer to Warren's phases. */
static const char *phase_of(const char *status)
{
	static const struct {
		const char *words, *phase;
	} known[] = {
		{ "Pulling fs layer", "waiting" },
		{ "Waiting", "waiting" },
		{ "Downloading", "downloading" },
		{ "Verifying Checksum", "downloading" },
		{ "Download complete", "downloading" },
		{ "Extracting", "unpacking" },
		{ "Pull complete", "present" },
		{ "Already exists", "present" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(status, known[i].words) == 0)
			return known[i].phase;
	return NULL;
}

static uint64_t pull_count_of(const json_t *detail, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(detail, key));

	return n > 0 ? (uint64_t)n : 0;
}

static void tell_layer(const struct stream *s, const json_t *doc)
{
	const char *status = json_string_value(json_object_get(doc, "status"));
	const char *id = json_string_value(json_object_get(doc, "id"));
	const char *phase = status && id ? phase_of(status) : NULL;
	const json_t *detail = json_object_get(doc, "progressDetail");
	char digest[80];

	if (!s->watch || !phase)
		return;
	/* The daemon reports only the first digits of the digest. */
	(void)snprintf(digest, sizeof(digest), "sha256:%.64s", id);
	s->watch->tell(s->watch, digest, phase, pull_count_of(detail, "current"),
		       pull_count_of(detail, "total"));
}

static void pull_on_line(struct stream *s)
{
	json_t *doc = json_loadb(s->line.data, s->line.len, JSON_REJECT_DUPLICATES, NULL);
	const char *said = json_string_value(json_object_get(doc, "error"));

	if (said)
		docker_clean(s->failed, sizeof(s->failed), said);
	tell_layer(s, doc);
	json_decref(doc);
}

static int on_stream(void *ctx, const char *data, size_t n)
{
	struct stream *s = ctx;

	for (size_t i = 0; i < n; i++) {
		if (data[i] != '\n' && data[i] != '\r') {
			buf_add(&s->line, data + i, 1);
			continue;
		}
		if (s->line.len > 0 && !s->line.failed)
			pull_on_line(s);
		s->line.len = 0;
		s->line.failed = false; /* drop a line that is too long, because it can
					   only report progress */
	}
	return 0;
}

static size_t pull_on_send(void *ctx, char *data, size_t n)
{
	const struct stream *s = ctx;
	ssize_t got = read(s->from, data, n);

	return got < 0 ? CURL_READFUNC_ABORT : (size_t)got;
}

static int is_there(struct docker *d, const char *image, struct warren_error *err)
{
	struct warren_error why = WARREN_ERROR_INIT;
	char *name = curl_easy_escape(d->easy, image, 0);
	int r;

	if (!name)
		return error_errno(err, ENOMEM, "%s: look for the image", d->name);
	r = docker_ask(d, "look for the image", "GET", NULL, &why, "/images/%s/json",
		       name);
	curl_free(name);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		*err = why;
	return r < 0 ? r : 1;
}

static char *pull_text_of(const json_t *config, const char *key)
{
	const char *said = json_string_value(json_object_get(config, key));

	return said && said[0] ? strdup(said) : NULL;
}

int docker_image_says(struct docker *d, const char *image, struct shim_sandbox *p,
		      struct warren_error *err)
{
	const json_t *config;
	int r = is_there(d, image, err);

	if (r == 0)
		r = error_set(err, ENOMEDIUM, "%s: look for the image: '%.80s' is gone",
			      d->name, image);
	if (r < 0)
		return r;
	config = json_object_get(d->answer, "Config");
	p->user = pull_text_of(config, "User");
	p->cwd = pull_text_of(config, "WorkingDir");
	json_decref(d->volumes);
	d->volumes = json_incref(json_object_get(config, "Volumes"));
	return 0;
}

/*
 * Return the result of a stream, or the error that it reports; @r is the result of the
 * request.
 */
static int pull_outcome(const struct docker *d, const char *step, const char *image,
			int r, const struct stream *s, struct warren_error *err)
{
	struct warren_error why = r < 0 ? *err : (struct warren_error)WARREN_ERROR_INIT;

	if (r >= 0 && s->failed[0])
		r = error_set(&why, docker_said(s->failed, ENOMEDIUM), "%s: %s: %s",
			      d->name, step, s->failed);
	if (r >= 0)
		return 0;
	/*
	 * If the daemon was not reached or has no disk space, the error is not about the
	 * image.
	 */
	return error_set(err, d->status && r != -ENOSPC ? ENOMEDIUM : -r,
			 "%s (image '%.80s')", why.msg, image);
}

static int docker_pull_image(struct docker *d, const char *image,
			     struct warren_error *err)
{
	static const char step[] = "pull the image";
	struct stream s = { .line = BUF_INIT(LINE_MAX_), .watch = d->watch };
	struct ref ref;
	char *name;
	char from[REF_TEXT_MAX];
	int r;

	if (ref_parse(image, &ref, err) < 0) {
		(void)error_wrap(err, "%s: image '%.80s'", d->name, image);
		err->code = EINVAL;
		return -EINVAL;
	}
	(void)snprintf(from, sizeof(from), "%s/%s", ref.registry, ref.name);
	name = curl_easy_escape(d->easy, from, 0);
	if (!name)
		return error_errno(err, ENOMEM, "%s: %s", d->name, step);
	d->pace = DOCKER_MOVING;
	d->sink = on_stream;
	d->ctx = &s;
	r = docker_ask(d, step, "POST", NULL, err, "/images/create?fromImage=%s&tag=%s",
		       name, ref.digest[0] ? ref.digest : ref.tag);
	curl_free(name);
	r = pull_outcome(d, step, image, r, &s, err);
	buf_done(&s.line);
	return r;
}

/* Open the archive of that image. Return -1 if there is none, or no directory. */
static int open_archive(const struct docker *d, const char *image)
{
	char path[4096];
	int n;

	if (!d->archives)
		return -1;
	n = snprintf(path, sizeof(path), "%s/%s.tar", d->archives, image);
	if (n < 0 || (size_t)n >= sizeof(path))
		return -1;
	for (char *p = path + strlen(d->archives) + 1; *p; p++)
		if (*p == '/')
			*p = '_';
	return open(path, O_RDONLY | O_CLOEXEC);
}

static int pull_load(struct docker *d, const char *image, int fd,
		     struct warren_error *err)
{
	static const char step[] = "load the image";
	struct stream s = { .line = BUF_INIT(LINE_MAX_), .from = fd };
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return error_errno(err, errno, "%s: %s", d->name, step);
	d->pace = DOCKER_MOVING;
	d->sink = on_stream;
	d->source = pull_on_send;
	d->sent = (uint64_t)st.st_size;
	d->ctx = &s;
	r = docker_ask(d, step, "POST", NULL, err, "/images/load?quiet=true");
	r = pull_outcome(d, step, image, r, &s, err);
	buf_done(&s.line);
	if (r == 0)
		r = is_there(d, image, err);
	if (r == 0)
		return error_set(err, ENOMEDIUM,
				 "%s: %s: the archive in '%s' does not contain the "
				 "image '%.80s'",
				 d->name, step, d->archives, image);
	return r < 0 ? r : 0;
}

int docker_image(struct docker *d, const char *image, struct warren_error *err)
{
	bool always = strcmp(d->pull, "always") == 0;
	AUTO_CLOSE int archive = -1;
	int r = is_there(d, image, err);

	if (r < 0 || (r > 0 && (!always || d->no_pull)))
		return r < 0 ? r : 0;
	archive = open_archive(d, image);
	if (archive >= 0)
		return r > 0 ? 0 : pull_load(d, image, archive, err);
	if (strcmp(d->pull, "never") == 0)
		return error_set(
			err, ENOMEDIUM,
			"%s: the daemon has no image '%.80s', and 'pull: never' is "
			"configured: run 'docker pull' or 'docker load'",
			d->name, image);
	if (d->no_pull)
		return error_set(
			err, ENOMEDIUM,
			"%s: the daemon has no image '%.80s', and this client may not "
			"make it pull one: that needs the scope 'pull', and a "
			"registry that the service's configuration lists "
			"(trusted_registries)",
			d->name, image);
	return docker_pull_image(d, image, err);
}

/* ---------------------------------------------------------- requests to pull an image */

/* Return the list, or an empty one if it is not a list. */
static json_t *list_of(json_t *list)
{
	return json_is_array(list) ? json_incref(list) : json_array();
}

/* Write the image in the same format as native images. */
static json_t *pull_show(json_t *a)
{
	json_t *config = json_object_get(a, "Config");
	char shim_driver[64];
	const char *os = json_string_value(json_object_get(a, "Os"));
	const char *arch = json_string_value(json_object_get(a, "Architecture"));
	const char *user = json_string_value(json_object_get(config, "User"));
	const char *cwd = json_string_value(json_object_get(config, "WorkingDir"));

	(void)snprintf(shim_driver, sizeof(shim_driver), "%.30s/%.30s", os ? os : "",
		       arch ? arch : "");
	return json_pack("{s:O*, s:o, s:s, s:O*, s:o, s:O*, s:s, s:s, s:o, s:o, s:o}",
			 "id", json_object_get(a, "Id"), "names",
			 list_of(json_object_get(a, "RepoTags")), "platform", shim_driver,
			 "size", json_object_get(a, "Size"), "layers",
			 list_of(json_object_get(json_object_get(a, "RootFS"), "Layers")),
			 "created", json_object_get(a, "Created"), "user",
			 user ? user : "", "workdir", cwd ? cwd : "", "env",
			 list_of(json_object_get(config, "Env")), "entrypoint",
			 list_of(json_object_get(config, "Entrypoint")), "cmd",
			 list_of(json_object_get(config, "Cmd")));
}

int docker_pull(const char *name, const json_t *config, const char *image, bool missing,
		struct shim_driver_pull *pull, json_t **ret, struct warren_error *err)
{
	AUTO_DOCKER struct docker d = { 0 };
	int r = docker_open(&d, name, config, err);

	if (r < 0)
		return r;
	d.watch = pull;
	/* An explicit pull asks for the registry's current image. */
	if (strcmp(d.pull, "missing") == 0 && !missing)
		d.pull = "always";
	r = docker_image(&d, image, err);
	if (r == 0)
		r = is_there(&d, image, err);
	if (r < 0)
		return r;
	*ret = r > 0 ? pull_show(d.answer) : NULL;
	return *ret ? 0 : docker_odd(&d, "look for the image", err);
}
