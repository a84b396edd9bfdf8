/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd_image_build.c - warren image build, if WARREN_HOST names a service
 *
 * The context is packed here, without the files that .dockerignore excludes, and sent as
 * the body of the request; the service builds the image. A Dockerfile that is not in the
 * context is sent in the directory BUILD_DIR of the archive.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/strv.h"
#include "cli/build_options.h"
#include "cli/client/cmd_image.h"
#include "cli/client/commands.h"
#include "cli/client/spec.h"
#include "cli/client/tar.h"
#include "dockerfile/dockerfile.h"
#include "dockerfile/ignore.h"

#define BUILD_DIR     ".warren-build"
#define BUILD_IGNORE  ".dockerignore"
#define BUILD_URL     "/v1/images/build"
#define BUILD_URL_MAX (64U << 10)

/* A build: its context, and what arrives. */
struct remote_build {
	const struct build_options *o;
	char *context;    /* absolute */
	char *dockerfile; /* its path in the archive */
	struct ignore ignore;
	struct tar_extra extra[2]; /* the Dockerfile and its .dockerignore */
	size_t n_extra;
	struct tar tar;
	json_t *done;
	struct warren_error err; /* the error that the service reported */
};

/* ----------------------------------------------------------------------- context */

static int build_add_extra(struct remote_build *b, const char *name, char *data,
			   size_t size)
{
	char *path = NULL;

	if (asprintf(&path, BUILD_DIR "/%s", name) < 0) {
		free(data);
		return -ENOMEM;
	}
	b->extra[b->n_extra++] = (struct tar_extra){ path, data, size };
	return 0;
}

/* The path of @file in the context; NULL: it is not there. */
static const char *build_below(const char *context, const char *file)
{
	size_t n = strlen(context);

	if (n == 1) /* the root */
		return file + 1;
	return strncmp(file, context, n) == 0 && file[n] == '/' ? file + n + 1 : NULL;
}

/* A Dockerfile that is not in the context is sent with its own .dockerignore. */
static int build_send_dockerfile(struct remote_build *b, const char *file,
				 struct warren_error *err)
{
	bool piped = strcmp(file, "-") == 0;
	const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
	AUTO_FREE char *ignore = NULL, *ignore_name = NULL;
	struct warren_error why = WARREN_ERROR_INIT;
	char *text = NULL;
	size_t size = 0;
	int r = build_options_read(AT_FDCWD, file, DOCKERFILE_SIZE_MAX, &text, &size,
				   err);

	if (r < 0)
		return r;
	name = piped ? "Dockerfile" : name;
	if (build_add_extra(b, name, text, size) < 0 ||
	    asprintf(&b->dockerfile, BUILD_DIR "/%s", name) < 0 ||
	    asprintf(&ignore, "%s" BUILD_IGNORE, file) < 0 ||
	    asprintf(&ignore_name, "%s" BUILD_IGNORE, name) < 0)
		return error_errno(err, ENOMEM, "read the Dockerfile");
	if (piped)
		return 0;
	r = build_options_read(AT_FDCWD, ignore, IGNORE_SIZE_MAX, &text, &size, &why);
	if (r == -ENOENT)
		return 0;
	if (r < 0) {
		*err = why;
		return r;
	}
	return build_add_extra(b, ignore_name, text, size) < 0
		       ? error_errno(err, ENOMEM, "read the Dockerfile")
		       : ignore_parse(text, size, &b->ignore, err);
}

static int build_find_dockerfile(struct remote_build *b, struct warren_error *err)
{
	AUTO_FREE char *path = NULL, *real = NULL;
	const char *below = NULL;

	if (b->o->file && strcmp(b->o->file, "-") == 0)
		return build_send_dockerfile(b, "-", err);
	if (!b->o->file && asprintf(&path, "%s/Dockerfile", b->context) < 0)
		path = NULL;
	else if (b->o->file)
		path = strdup(b->o->file);
	if (!path)
		return error_errno(err, ENOMEM, "read the Dockerfile");
	real = realpath(path, NULL);
	if (!real)
		return error_errno(err, errno, "open '%s'", path);
	below = b->o->file ? build_below(b->context, real) : "Dockerfile";
	if (!below)
		return build_send_dockerfile(b, path, err);
	b->dockerfile = strdup(below);
	return b->dockerfile ? 0 : error_errno(err, ENOMEM, "read the Dockerfile");
}

/* "<Dockerfile>.dockerignore", otherwise ".dockerignore" of the context. */
static int build_find_ignore(struct remote_build *b, struct warren_error *err)
{
	struct warren_error why = WARREN_ERROR_INIT;
	const char *names[] = { b->dockerfile, "" };
	int r = -ENOENT;

	if (b->n_extra == 2)
		return 0;
	for (size_t i = !b->o->file || b->n_extra; r == -ENOENT && i < 2; i++) {
		AUTO_FREE char *path = NULL, *text = NULL;
		size_t size = 0;

		if (asprintf(&path, "%s/%s" BUILD_IGNORE, b->context, names[i]) < 0)
			return error_errno(err, ENOMEM, "read " BUILD_IGNORE);
		r = build_options_read(AT_FDCWD, path, IGNORE_SIZE_MAX, &text, &size,
				       &why);
		if (r == 0)
			return ignore_parse(text, size, &b->ignore, err);
	}
	if (r == -ENOENT)
		return 0;
	*err = why;
	return r;
}

/* The service needs the Dockerfile and .dockerignore even if they are excluded. */
static bool build_skips(void *ctx, const char *path)
{
	const struct remote_build *b = ctx;
	size_t n = strlen(b->dockerfile);

	if (strcmp(path, BUILD_DIR) == 0)
		return true;
	if (strcmp(path, BUILD_IGNORE) == 0 ||
	    (strncmp(path, b->dockerfile, n) == 0 &&
	     (!path[n] || strcmp(path + n, BUILD_IGNORE) == 0)))
		return false;
	return ignore_match(&b->ignore, path);
}

static int build_pack(struct remote_build *b, const char *context,
		      struct warren_error *err)
{
	struct tar_options options = { .command = "image build",
				       .skip = build_skips,
				       .ctx = b,
				       .refuse_devices = true };
	int r;

	if (strcmp(context, "-") == 0)
		return error_set(
			err, ENOTSUP,
			"the context cannot be read from stdin; give a directory");
	b->context = realpath(context, NULL);
	if (!b->context)
		return error_errno(err, errno, "open the context '%s'", context);
	r = build_find_dockerfile(b, err);
	if (r == 0)
		r = build_find_ignore(b, err);
	if (r < 0)
		return r;
	/* The Dockerfile may be in an excluded directory. */
	options.skip_has_exceptions =
		b->ignore.has_exceptions || strchr(b->dockerfile, '/') != NULL;
	options.extra = b->extra;
	options.n_extra = b->n_extra;
	return tar_pack_with(b->context, &options, &b->tar, err);
}

/* ----------------------------------------------------------------------- request */

static void build_put_object(struct buf *url, const json_t *all, const char *key)
{
	const json_t *value = json_object_get(all, key);
	char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

	if (text)
		put_query(url, key, text);
	free(text);
}

/* --build-arg without a value is the caller's variable, if it is set. */
static void build_put_args(struct buf *url, const struct build_words *args)
{
	for (size_t i = 0; i < args->n; i++) {
		const char *text = args->v[i];
		const char *value = strchr(text, '=') ? NULL : getenv(text);
		AUTO_FREE char *pair = NULL;

		if (strchr(text, '='))
			put_query(url, "build_arg", text);
		else if (value && asprintf(&pair, "%s=%s", text, value) >= 0)
			put_query(url, "build_arg", pair);
	}
}

static void build_put_list(struct buf *url, const char *name,
			   const struct build_words *words)
{
	for (size_t i = 0; i < words->n; i++)
		put_query(url, name, words->v[i]);
}

static void build_put_url(const struct remote_build *b, struct buf *url)
{
	const struct build_options *o = b->o;
	AUTO_JSON json_t *spec = json_object();

	spec_put_limits(spec, o->limits);
	spec_put_network(spec, &o->network);
	buf_puts(url, BUILD_URL);
	put_query(url, "dockerfile", b->dockerfile);
	build_put_list(url, "tag", &o->tags);
	build_put_args(url, &o->args);
	build_put_list(url, "label", &o->labels);
	if (o->target)
		put_query(url, "target", o->target);
	if (o->no_cache)
		put_query(url, "no_cache", "true");
	if (o->pull)
		put_query(url, "pull", "true");
	if (o->quiet)
		put_query(url, "quiet", "true");
	build_put_object(url, spec, "limits");
	build_put_object(url, spec, "network");
}

static ssize_t build_read_tar(void *arg, char *data, size_t n)
{
	struct remote_build *b = arg;
	struct warren_error why = WARREN_ERROR_INIT;
	ssize_t got;

	do
		got = read(b->tar.fd, data, n);
	while (got < 0 && errno == EINTR);
	/* An incomplete archive must not look complete. */
	if (got == 0 && client_tar_end(&b->tar, &why) < 0) {
		b->err = why;
		return -1;
	}
	return got;
}

static int build_on_event(void *arg, const char *line, size_t n)
{
	AUTO_JSON json_t *event = json_loadb(line, n, JSON_ALLOW_NUL, NULL);
	const char *type = print_text_of(event, "type");
	struct remote_build *b = arg;

	if (strcmp(type, "output") == 0) {
		const json_t *text = json_object_get(event, "text");

		if (json_is_string(text))
			(void)!fd_write_all(STDERR_FILENO, json_string_value(text),
					    json_string_length(text));
	} else if (strcmp(type, "error") == 0) {
		(void)error_set(
			&b->err, EIO, "%s",
			print_text_of(json_object_get(event, "error"), "message"));
	} else if (strcmp(type, "done") == 0) {
		json_decref(b->done);
		b->done = json_incref(event);
	}
	return 0;
}

static int build_send(struct client *c, struct remote_build *b, struct warren_error *err)
{
	AUTO_BUF struct buf url = BUF_INIT(BUILD_URL_MAX);
	AUTO_REQUEST struct request *request = NULL;
	int r;

	build_put_url(b, &url);
	if (url.failed)
		return error_set(err, E2BIG, "the options are too long for a service");
	r = request_new(c, "POST", url.data, &request, err);
	if (r < 0)
		return r;
	request->from = build_read_tar;
	request->on_line = build_on_event;
	request->arg = b;
	r = request_upload(request, "application/x-tar", -1, err);
	if (r == 0)
		r = request_start(request, err);
	if (r == 0)
		r = request_wait(request, err);
	if (b->err.code) {
		*err = b->err;
		return -b->err.code;
	}
	if (r == 0 && !b->done)
		r = error_set(err, EPIPE,
			      "the service ended the build without a result; try again");
	return r;
}

/* ------------------------------------------------------------------------ result */

static int build_show(const struct build_options *o, const json_t *done)
{
	AUTO_BUF struct buf out = BUF_INIT(PATH_LIMIT);
	const json_t *names = json_object_get(done, "names");
	const char *id = print_text_of(done, "id");
	size_t n = json_array_size(names);
	int status = 0;

	buf_printf(&out, "%s\n", id);
	if (!o->json)
		return message_print(remote_build.name, &out);
	for (size_t i = 0; i < (n ? n : 1); i++) {
		AUTO_JSON json_t *shown = json_pack(
			"{s:s, s:s, s:s?}", "action", "built", "id", id, "reference",
			json_string_value(json_array_get(names, i)));

		if (print_json(&remote_build, shown) != 0)
			status = STATUS_FAILED;
	}
	return status;
}

static void remote_build_done(struct remote_build *b)
{
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (b->tar.pid > 0) {
		(void)kill(b->tar.pid, SIGKILL);
		(void)!client_tar_end(&b->tar, &ignored);
	}
	for (size_t i = 0; i < b->n_extra; i++) {
		free((char *)(uintptr_t)b->extra[i].name);
		free((char *)(uintptr_t)b->extra[i].data);
	}
	ignore_done(&b->ignore);
	free(b->context);
	free(b->dockerfile);
	json_decref(b->done);
}

static int remote_build_run(struct build_options *o, const char *context,
			    struct warren_error *err)
{
	CLEANUP(remote_build_done)
	struct remote_build b = { .o = o, .tar = { .fd = -1 } };
	AUTO_CLIENT struct client *c = NULL;
	int r = network_options_check(&o->network, err);

	if (r == 0)
		r = build_options_check_service(o, err);
	if (r == 0)
		r = client_open(&c, err);
	if (r == 0)
		r = build_pack(&b, context, err);
	if (r == 0)
		r = build_send(c, &b, err);
	if (r == 0)
		r = build_options_write_id(o, print_text_of(b.done, "id"), err);
	return r < 0 ? r : build_show(o, b.done);
}

static int remote_run_build(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct build_options o = { 0 };
	char **words = NULL;
	int status = 0, r;

	if (command_operands(&remote_build, argc, argv, &o, 1, 1, &words, &status)) {
		o.quiet = o.quiet || o.json;
		r = remote_build_run(&o, *words, &err);
		status = r < 0 ? client_fail(&remote_build, &err) : r;
	}
	network_options_done(&o.network);
	return status;
}

const struct command remote_build = {
	.name = "image build",
	.summary = "Have the service build an image from a Dockerfile.",
	.about = "A service does not have --secret and --allow-dir.\n"
		 "Exit status: 0, or 125 after an error message.\n",
	.opts = &build_opts,
	.run = remote_run_build,
};
