/* SPDX-License-Identifier: Apache-2.0 */
/* build_request.c - build an image for a client of the service */
#include "cli/image/build_request.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/snapshot_name.h"
#include "cli/image/build.h"
#include "cli/image/cancel.h"
#include "cli/image/report.h"
#include "cli/image/source.h"
#include "image/copy.h"
#include "image/store_collect.h"
#include "image/unpack.h"
#include "spec/machine.h"
#include "spec/spec.h"

#define FIELD(name) offsetof(struct build_request, name)

static int build_request_set_most(void *field, const char *value,
				  struct warren_error *err)
{
	uint64_t *most = field;
	AUTO_FREE char *copy = strdup(value);
	char *rest = copy;
	size_t n = 0;

	for (char *word; copy && (word = strsep(&rest, ",")); n++)
		if (n == SPEC_LIMIT_MAX || parse_u64(word, UINT64_MAX, &most[n], err) < 0)
			return error_set(err, EINVAL, "'%.100s' is not a list of limits",
					 value);
	return n == SPEC_LIMIT_MAX
		       ? 0
		       : error_set(err, EINVAL, "'%.100s' is incomplete", value);
}

/* clang-format off */
static const struct opt request_table[] = {
	{ NULL, "most", 0, "N,N...", "1,2", "the maximum of each limit",
	  build_request_set_most, FIELD(most) },
	{ NULL, "run-dir", 0, "DIR", "/run/warren", "directory of live sandboxes",
	  opt_text, FIELD(run_dir) },
	{ NULL, "dns-servers", 0, "LIST", "192.0.2.1", "servers for warren-egress",
	  opt_text, FIELD(dns_servers) },
	{ NULL, OPT_INSECURE(FIELD(insecure)) },
	{ NULL, OPT_TRUSTED(FIELD(trusted)) },
	{ NULL, "trim", 0, NULL, NULL, "only remove steps, if the disk is nearly full",
	  opt_flag, FIELD(trim) },
	{ NULL, "no-host", 0, NULL, NULL, "refuse FROM host", opt_flag, FIELD(no_host) },
};
/* clang-format on */

static const struct command request_command = {
	.name = "image build",
	.summary = "Build an image for a client of the service.",
	.opts = &(const struct opts){ .table = request_table,
				      .n = ARRAY_SIZE(request_table),
				      .example = "warren-image " BUILD_REQUEST_WORD },
};

/* ------------------------------------------------------------------- the request */

static int build_request_bad(const char *what, struct warren_error *err)
{
	return error_set(err, EPROTO, "the request for a build is not valid: %s", what);
}

static const char *request_text(const json_t *in, const char *key)
{
	return json_string_value(json_object_get(in, key));
}

static int request_words(const json_t *in, const char *key, struct build_words *words,
			 struct warren_error *err)
{
	const json_t *list = json_object_get(in, key), *value;
	size_t i;

	json_array_foreach(list, i, value)
	{
		if (i == BUILD_WORDS_MAX || !json_is_string(value))
			return build_request_bad(key, err);
		words->v[words->n++] = json_string_value(value);
	}
	return 0;
}

/* Every limit must be given, because 0 means the default of this program. */
static int request_limits(const struct build_request *q, uint64_t *limits,
			  struct warren_error *err)
{
	const json_t *list = json_object_get(q->json, "limits");
	struct warren_spec spec = { 0 };

	if (json_array_size(list) != SPEC_LIMIT_MAX)
		return build_request_bad("limits", err);
	for (size_t i = 0; i < SPEC_LIMIT_MAX; i++) {
		const char *text = json_string_value(json_array_get(list, i));
		uint64_t n = 0;

		if (!text || parse_u64(text, UINT64_MAX, &n, NULL) < 0 || n == 0)
			return build_request_bad("limits", err);
		if (q->most[i] && n > q->most[i])
			return error_set(err, EPERM,
					 "a limit is more than the %ju that the service "
					 "allows",
					 (uintmax_t)q->most[i]);
		limits[i] = n;
		spec_limit_set(&spec, i, n);
	}
	return machine_check_memory(spec.memory, err);
}

static int request_network(struct build_request *q, struct warren_error *err)
{
	const char *word = request_text(q->json, "network");
	const json_t *policy = json_object_get(q->json, "policy");

	if (!word)
		return build_request_bad("network", err);
	if (strcmp(word, "none") == 0)
		q->network = WARREN_NETWORK_NONE;
	else if (strcmp(word, "loopback") == 0)
		q->network = WARREN_NETWORK_LOOPBACK;
	else if (strcmp(word, "policy") == 0 && json_is_object(policy))
		q->network = WARREN_NETWORK_CAPTURED;
	else
		return build_request_bad("network", err);
	if (q->network == WARREN_NETWORK_CAPTURED) {
		q->policy = json_dumps(policy, JSON_COMPACT);
		if (!q->policy)
			return error_errno(err, ENOMEM, "read the policy");
	}
	return 0;
}

static int request_fields(struct build_request *q, struct build_options *o,
			  struct warren_error *err)
{
	const json_t *in = q->json;
	int r = request_words(in, "tags", &o->tags, err);

	if (r == 0)
		r = request_words(in, "args", &o->args, err);
	if (r == 0)
		r = request_words(in, "labels", &o->labels, err);
	if (r == 0)
		r = request_limits(q, o->limits, err);
	if (r == 0)
		r = request_network(q, err);
	q->tenant = request_text(in, "tenant");
	q->soft = (uint32_t)json_integer_value(json_object_get(in, "soft"));
	q->snapshot = request_text(in, "snapshot");
	q->base = request_text(in, "base");
	q->steps_max = (uint64_t)json_integer_value(json_object_get(in, "steps_max"));
	if (q->steps_max == 0 || q->steps_max > BUILD_STEPS_MAX)
		q->steps_max = BUILD_STEPS_MAX;
	o->file = request_text(in, "dockerfile");
	o->target = request_text(in, "target");
	o->no_cache = json_is_true(json_object_get(in, "no_cache"));
	o->quiet = json_is_true(json_object_get(in, "quiet"));
	o->pull = json_is_true(json_object_get(in, "pull"));
	if (r == 0 && (!q->tenant || !*q->tenant || !o->file))
		r = build_request_bad("tenant, dockerfile", err);
	if (r == 0 &&
	    ((q->snapshot && !id_valid(q->snapshot)) || (q->base && !id_valid(q->base))))
		r = build_request_bad("snapshot, base", err);
	/* A value that is not given would be a variable of the service. */
	for (size_t i = 0; r == 0 && i < o->args.n; i++)
		if (!strchr(o->args.v[i], '='))
			r = build_request_bad("an argument has no value", err);
	for (size_t i = 0; r == 0 && i < o->tags.n; i++) {
		struct ref ref;

		r = ref_parse(o->tags.v[i], &ref, err);
		if (r == 0 && (ref.digest[0] || snapshot_is_ref(ref.registry)))
			r = error_set(err, EINVAL, "'%.200s' cannot be given as a name",
				      o->tags.v[i]);
	}
	return r;
}

/* Read exactly the request, so that the archive is next. */
static int build_request_read(struct build_request *q, struct build_options *o,
			      struct warren_error *err)
{
	char head[BUILD_REQUEST_DIGITS + 2] = "";
	AUTO_FREE char *text = NULL;
	uint64_t size = 0;

	if (fd_read_all(STDIN_FILENO, head, BUILD_REQUEST_DIGITS + 1) !=
		    BUILD_REQUEST_DIGITS + 1 ||
	    head[BUILD_REQUEST_DIGITS] != '\n')
		return build_request_bad("its length", err);
	head[BUILD_REQUEST_DIGITS] = '\0';
	if (parse_u64(head, BUILD_REQUEST_MAX, &size, NULL) < 0)
		return build_request_bad("its length", err);
	text = malloc(size + 1);
	if (!text)
		return error_errno(err, ENOMEM, "read the request");
	if (fd_read_all(STDIN_FILENO, text, size) != (ssize_t)size)
		return build_request_bad("it is incomplete", err);
	q->json = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
	return json_is_object(q->json) ? request_fields(q, o, err)
				       : build_request_bad("not an object", err);
}

/* --------------------------------------------------------------------- the rules */

int build_request_may_use(const struct build *b, const char *ref,
			  struct warren_error *err)
{
	const struct build_request *q = b->request;
	struct warren_error why = WARREN_ERROR_INIT;
	struct store_image image;
	int r;

	if (strcmp(ref, "host") == 0)
		return !q->no_host
			       ? 0
			       : error_set(err, EPERM,
					   "image 'host' shows this machine's own "
					   "programs, which the service's configuration "
					   "(host_image) does not allow");
	if (strncmp(ref, "dir:", 4) == 0)
		return error_set(err, EPERM,
				 "image '%.200s': clients of the service cannot use a "
				 "directory of its machine",
				 ref);
	if (snapshot_is_ref(ref))
		return q->base && strcmp(strchr(ref, '/') ? strchr(ref, '/') + 1 : "",
					 q->base) == 0
			       ? 0
			       : error_set(err, ENOENT, "there is no image '%.200s'",
					   ref);
	r = image_find(&b->store, ref, &image, err);
	if (r == 0) {
		store_image_done(&image);
		return 0;
	}
	/* It is a snapshot, which only its tenant knows. */
	if (store_find(&b->store, ref, &image, &why) == 0) {
		store_image_done(&image);
		return r;
	}
	*err = (struct warren_error)WARREN_ERROR_INIT;
	return 0;
}

void build_request_differ(json_t *config)
{
	char random[ID_LEN + 1], by[64];

	id_make(random);
	(void)snprintf(by, sizeof(by), "warren template %s", random);
	build_config_history(config, "", by, false);
}

int build_request_name(const struct build *b, const char *id, struct warren_error *err)
{
	char text[REF_TEXT_MAX];
	struct ref ref;
	int r;

	(void)snprintf(text, sizeof(text), SNAPSHOT_REGISTRY "/%s", b->request->snapshot);
	r = ref_parse(text, &ref, err);
	return r < 0 ? r : store_tag(&b->store, &ref, id, err);
}

/* Write the result: the id of the image and its size. */
static int build_request_put_snapshot(const struct build *b, const char *id,
				      struct buf *out, struct warren_error *err)
{
	struct store_image image = { 0 };
	struct json j = { .out = out };
	int r = store_find(&b->store, id, &image, err);

	if (r < 0)
		return r;
	json_open(&j, NULL, '[');
	json_open(&j, NULL, '{');
	json_str(&j, "id", id);
	json_u64(&j, "size", image.size);
	json_close(&j, '}');
	json_close(&j, ']');
	buf_puts(out, "\n");
	store_image_done(&image);
	return 0;
}

int build_request_count(struct build_request *q, uint64_t bytes, struct warren_error *err)
{
	q->bytes += bytes;
	return q->bytes <= BUILD_BYTES_MAX
		       ? 0
		       : error_set(err, EFBIG,
				   "the layers of the build are larger than %ju bytes",
				   (uintmax_t)BUILD_BYTES_MAX);
}

/* ------------------------------------------------------------------- the context */

static bool build_request_cancelled(void *ctx UNUSED)
{
	return build_cancelled();
}

static int build_request_unpack(struct build *b, struct store_new *dir,
				struct warren_error *err)
{
	const struct unpack_watch watch = { build_request_cancelled, NULL };
	const struct unpack_options options = { .max_bytes = BUILD_CONTEXT_MAX,
						.watch = &watch };
	struct unpack_result ignored;
	int r;

	store_tidy(&b->store, false);
	r = store_new_work(&b->store, dir, err);
	if (r < 0)
		return r;
	r = unpack_archive(STDIN_FILENO, dir->fd, &options, &ignored, err);
	if (r < 0)
		return error_wrap(err, "unpack the context");
	b->context = fcntl(dir->fd, F_DUPFD_CLOEXEC, 3);
	if (b->context < 0)
		return error_errno(err, errno, "open the context");
	r = view_open_plain(b->context, &b->source);
	return r < 0 ? error_errno(err, -r, "open the context") : 0;
}

static int build_request_run(struct build *b, char id[REF_DIGEST_LEN + 1],
			     struct store_new *dir, struct warren_error *err)
{
	int r = image_open_store(true, &b->store, err);

	if (r == 0)
		r = build_request_unpack(b, dir, err);
	if (r == 0)
		r = build_read_input(b, err);
	if (r == 0)
		copy_remove_tree(b->context, BUILD_REQUEST_DIR);
	return r < 0 ? r : build_make(b, id, err);
}

/* Whatever became of the build, its steps are kept for the next one, within bounds. */
static void build_request_limit_steps(const struct build_request *q)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct store s;

	if (!q->tenant || image_open_store(true, &s, &ignored) < 0)
		return;
	(void)!build_steps_limit(&s, q->tenant, q->steps_max);
	store_close(&s);
}

static int build_request_trim(struct warren_error *err)
{
	struct store s;
	int r = image_open_store(true, &s, err);

	if (r < 0)
		return r;
	r = build_steps_trim(&s);
	store_close(&s);
	return r < 0 ? error_errno(err, -r, "remove steps of builds") : 0;
}

int build_request_main(int argc, char **argv)
{
	AUTO_BUF struct buf out = BUF_INIT(OUTPUT_MAX);
	struct warren_error err = WARREN_ERROR_INIT;
	struct build_options o = { .json = true };
	struct build_request q = { 0 };
	struct build b = BUILD_INIT(&o);
	struct store_new dir = { .fd = -1 };
	char id[REF_DIGEST_LEN + 1], **operands;
	int r, status = 0;

	report_start();
	if (!command_operands(&request_command, argc, argv, &q, 0, 0, &operands, &status))
		return report_end(status);
	if (q.trim) {
		r = build_request_trim(&err);
		return report_end(image_end(&request_command, r, &err, &out));
	}
	cancel_arm();
	b.request = &q;
	r = build_request_read(&q, &o, &err);
	if (r == 0)
		r = build_request_run(&b, id, &dir, &err);
	if (r == 0 && q.snapshot)
		r = build_request_put_snapshot(&b, id, &out, &err);
	else if (r == 0)
		build_put_json(&o, id, &out);
	if (dir.fd >= 0)
		store_drop_layer(&b.store, &dir);
	build_done(&b);
	build_request_limit_steps(&q);
	json_decref(q.json);
	free(q.policy);
	return report_end(image_end(&request_command, r, &err, &out));
}
