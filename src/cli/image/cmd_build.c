/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_build.c - warren image build: build an image from a Dockerfile */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/strv.h"
#include "base/utf8.h"
#include "cli/common_options.h"
#include "cli/image/build.h"
#include "cli/image/cancel.h"
#include "cli/image/catalog.h"
#include "cli/image/report.h"
#include "cli/image/source.h"
#include "image/oci.h"

/* The names are checked before anything is built. */
static int build_check_tags(const struct build_options *o, struct warren_error *err)
{
	for (size_t i = 0; i < o->tags.n; i++) {
		struct ref ref;
		int r = ref_parse(o->tags.v[i], &ref, err);

		if (r == 0 && ref.digest[0])
			r = error_set(err, EINVAL, "a digest cannot be given as a name");
		if (r < 0)
			return error_wrap(err, "--tag");
	}
	return 0;
}

/* ------------------------------------------------------------------ progress */

void build_put_output(const void *data, size_t n)
{
	if (report_wanted())
		image_report_output(data, n);
	else
		(void)!fd_write_all(STDERR_FILENO, data, n);
}

void build_say(const struct build *b, const char *text)
{
	char line[512];
	int n = snprintf(line, sizeof(line), "%s\n", text);

	if (!b->o->quiet && n > 0)
		build_put_output(line,
				 (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
}

void build_say_step(const struct build *b, size_t k,
		    const struct dockerfile_instruction *i)
{
	const struct plan_stage *stage = &b->plan.stages[k];
	char name[80] = "", text[200], line[320];

	if (b->o->quiet)
		return;
	if (b->plan.n > 1 && stage->name)
		(void)snprintf(name, sizeof(name), "%.70s ", stage->name);
	else if (b->plan.n > 1)
		(void)snprintf(name, sizeof(name), "stage-%zu ", k);
	(void)snprintf(text, sizeof(text), "%s", i->text);
	for (char *c = text; *c; c++)
		if ((unsigned char)*c < ' ')
			*c = ' ';
	(void)snprintf(line, sizeof(line), "[%s%u/%u] %s", name, b->stages[k].step,
		       stage->steps, text);
	build_say(b, line);
}

/* --------------------------------------------------------------------- input */

/*
 * Read a file that the user names, or a file of the context. A client of the service can
 * name only files of the context, and a link there leads to nothing else.
 */
static int build_read_named(const struct build *b, const char *path, bool in_context,
			    size_t max, char **ret, size_t *ret_size,
			    struct warren_error *err)
{
	int r;

	if (!b->request)
		return build_options_read(in_context ? b->context : AT_FDCWD, path, max,
					  ret, ret_size, err);
	r = view_read(&b->source, path + strspn(path, "/"), max, ret, ret_size);
	return r < 0 ? error_errno(err, -r, "open '%s'", path) : 0;
}

static int build_read_dockerfile(struct build *b, struct warren_error *err)
{
	const char *path = b->o->file ? b->o->file : "Dockerfile", *name;
	AUTO_FREE char *text = NULL;
	size_t size = 0;
	int r = build_read_named(b, path, !b->o->file, DOCKERFILE_SIZE_MAX, &text, &size,
				 err);

	if (r < 0)
		return r;
	name = strrchr(path, '/');
	name = strcmp(path, "-") == 0 ? "Dockerfile" : name ? name + 1 : path;
	return dockerfile_parse(text, size, name, &b->file, err);
}

/* "<Dockerfile>.dockerignore", otherwise ".dockerignore" of the context. */
static int build_read_ignore(struct build *b, struct warren_error *err)
{
	AUTO_FREE char *text = NULL, *own = NULL;
	struct warren_error why = WARREN_ERROR_INIT;
	size_t size = 0;
	int r = -ENOENT;

	if (b->o->file && strcmp(b->o->file, "-") != 0) {
		if (asprintf(&own, "%s.dockerignore", b->o->file) < 0) {
			own = NULL;
			return error_errno(err, ENOMEM, "read .dockerignore");
		}
		r = build_read_named(b, own, false, IGNORE_SIZE_MAX, &text, &size, &why);
	}
	if (r == -ENOENT)
		r = build_read_named(b, ".dockerignore", true, IGNORE_SIZE_MAX, &text,
				     &size, &why);
	if (r == -ENOENT)
		return 0;
	if (r < 0) {
		*err = why;
		return r;
	}
	return ignore_parse(text, size, &b->ignore, err);
}

static int build_open_context(struct build *b, const char *path, struct warren_error *err)
{
	int r;

	if (strcmp(path, "-") == 0)
		return error_set(
			err, ENOTSUP,
			"the context cannot be read from stdin; give a directory");
	b->context = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (b->context < 0)
		return error_errno(err, errno, "open the context '%s'", path);
	if (!b->o->context_layer) {
		r = view_open_plain(b->context, &b->source);
	} else {
		AUTO_CLOSE int layer =
			open(b->o->context_layer, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (layer < 0)
			return error_errno(err, errno, "open '%s'", b->o->context_layer);
		r = view_open_under(b->context, layer, &b->source);
	}
	return r < 0 ? error_errno(err, -r, "open the context '%s'", path) : 0;
}

/* --build-arg without a value is the caller's variable, if it is set. */
static int build_given_args(const struct build_options *o, char ***ret,
			    struct warren_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < o->args.n; i++) {
		const char *arg = o->args.v[i], *equals = strchr(arg, '=');
		const char *value = equals ? equals + 1 : getenv(arg);
		size_t n = equals ? (size_t)(equals - arg) : strlen(arg);

		if (n == 0)
			return error_set(err, EINVAL, "--build-arg: '%.80s' has no name",
					 arg);
		if (value && !utf8_valid(value, strlen(value)))
			return error_set(err, EINVAL,
					 "--build-arg: '%.80s' is not text in UTF-8",
					 arg);
		if (value)
			r = dockerfile_var_set(ret, arg, n, value);
	}
	return r < 0 ? error_errno(err, -r, "read --build-arg") : 0;
}

/* An argument that no instruction declares is probably misspelt. */
static void build_note_args(const struct build *b, char *const *given)
{
	for (; given && *given; given++) {
		size_t n = strcspn(*given, "=");
		bool used = dockerfile_is_proxy(*given, n);

		for (size_t i = 0; !used && i < b->file.n; i++)
			for (char **a = b->file.v[i].args;
			     !used && b->file.v[i].kind == DOCKERFILE_ARG && *a; a++)
				used = strncmp(*a, *given, n) == 0 &&
				       ((*a)[n] == '=' || !(*a)[n]);
		if (!used) {
			char line[300];

			(void)snprintf(line, sizeof(line),
				       "warren image build: note: the Dockerfile has no "
				       "ARG '%.*s'",
				       n < 200 ? (int)n : 200, *given);
			build_say(b, line);
		}
	}
}

static int build_plan(struct build *b, struct warren_error *err)
{
	AUTO_STRV char **given = NULL;
	int r = build_given_args(b->o, &given, err);

	if (r == 0)
		build_note_args(b, given);
	return r < 0 ? r
		     : plan_make(&b->file, b->o->target, given, oci_platform(), &b->plan,
				 err);
}

/* -------------------------------------------------------------------- result */

static int build_add_labels(struct build *b, struct dockerfile_state *s,
			    struct warren_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < b->o->labels.n; i++) {
		const char *label = b->o->labels.v[i], *equals = strchr(label, '=');

		r = dockerfile_var_set(&s->labels, label,
				       equals ? (size_t)(equals - label) : strlen(label),
				       equals ? equals + 1 : "");
	}
	return r < 0 ? error_errno(err, -r, "add labels") : 0;
}

static int build_name(struct build *b, const char *id, struct warren_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < b->o->tags.n; i++) {
		struct ref ref;

		r = ref_parse(b->o->tags.v[i], &ref, err);
		if (r == 0)
			r = store_tag(&b->store, &ref, id, err);
	}
	return r;
}

/* The store must not be locked: the reader of the output may be slow. */
static void build_say_names(const struct build *b)
{
	for (size_t i = 0; i < b->o->tags.n; i++) {
		char line[512];

		(void)snprintf(line, sizeof(line), "naming it %s", b->o->tags.v[i]);
		build_say(b, line);
	}
}

/* Record the image of the target, and give it its names. */
static int build_record(struct build *b, char id[REF_DIGEST_LEN + 1],
			struct warren_error *err)
{
	struct build_stage *stage = &b->stages[b->plan.target];
	const char *snapshot = b->request ? b->request->snapshot : NULL;
	static char *none[] = { NULL };
	AUTO_FREE char *config = NULL;
	int r = build_add_labels(b, &stage->state, err);

	if (r < 0)
		return r;
	if (snapshot)
		build_request_differ(stage->config);
	config = build_config_text(stage->config, &stage->state,
				   stage->image.id[0] ? stage->image.layers : none);
	if (!config)
		return error_errno(err, ENOMEM, "describe the image");
	r = store_lock(&b->store, false, true);
	if (r < 0)
		return error_errno(err, -r, "lock the image store");
	/*
	 * The service removes the snapshot of a build that it has cancelled, and tries
	 * again while the store is locked: nothing may be stored after that.
	 */
	r = snapshot && build_cancelled() ? error_set(err, ECANCELED, "cancelled") : 0;
	if (r == 0)
		r = build_store_image(&b->store, config,
				      stage->image.id[0] ? &stage->image : NULL, snapshot,
				      id, err);
	if (r == 0)
		r = snapshot ? build_request_name(b, id, err) : build_name(b, id, err);
	store_unlock(&b->store);
	if (r == 0)
		build_say_names(b);
	return r;
}

void build_done(struct build *b)
{
	for (size_t k = 0; b->stages && k < b->plan.n; k++) {
		dockerfile_state_done(&b->stages[k].state);
		store_image_done(&b->stages[k].image);
		json_decref(b->stages[k].config);
	}
	free(b->stages);
	b->engine = warren_close(b->engine);
	plan_done(&b->plan);
	ignore_done(&b->ignore);
	dockerfile_done(&b->file);
	view_close(&b->source);
	close_p(&b->context);
	store_close(&b->store);
}

int build_read_input(struct build *b, struct warren_error *err)
{
	int r = build_read_dockerfile(b, err);

	if (r == 0)
		r = build_read_ignore(b, err);
	return r < 0 ? r : build_plan(b, err);
}

int build_make(struct build *b, char id[REF_DIGEST_LEN + 1], struct warren_error *err)
{
	int r = build_stages(b, err);

	return r < 0 ? r : build_record(b, id, err);
}

static int build_all(struct build *b, const char *context, char id[REF_DIGEST_LEN + 1],
		     struct warren_error *err)
{
	int r = build_open_context(b, context, err);

	if (r == 0)
		r = build_read_input(b, err);
	if (r == 0)
		r = image_open_store(true, &b->store, err);
	if (r == 0)
		r = build_make(b, id, err);
	return r < 0 ? r : build_options_write_id(b->o, id, err);
}

/* Errors are ignored, because the names were checked when the image got them. */
void build_put_json(const struct build_options *o, const char *id, struct buf *out)
{
	struct warren_error ignored = WARREN_ERROR_INIT;

	if (o->tags.n == 0)
		catalog_put_json(out, "built", id, NULL);
	for (size_t i = 0; i < o->tags.n; i++) {
		char text[REF_TEXT_MAX];
		struct ref ref;

		if (ref_parse(o->tags.v[i], &ref, &ignored) < 0)
			continue;
		ref_text(&ref, text);
		catalog_put_json(out, "built", id, text);
	}
}

static int run_build(int argc, char **argv)
{
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	struct warren_error err = WARREN_ERROR_INIT;
	struct build_options o = { 0 };
	struct build b = BUILD_INIT(&o);
	char id[REF_DIGEST_LEN + 1];
	char **operands;
	int r, status = 0;

	if (!command_operands(&image_build, argc, argv, &o, 1, 1, &operands, &status))
		return status;
	cancel_arm();
	o.quiet = o.quiet || o.json;
	r = build_check_tags(&o, &err);
	if (r == 0)
		r = network_options_check(&o.network, &err);
	if (r == 0)
		r = build_all(&b, operands[0], id, &err);
	if (r == 0 && o.json)
		build_put_json(&o, id, &out);
	else if (r == 0)
		buf_printf(&out, "%s\n", id);
	build_done(&b);
	network_options_done(&o.network);
	return image_end(&image_build, r, &err, &out);
}

const struct command image_build = {
	.name = "image build",
	.summary = "Build an image from a Dockerfile.",
	.about = "Exit status: 0, or 125 after an error message.\n",
	.opts = &build_opts,
	.run = run_build,
};
