/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build.c - builds of templates in progress
 *
 *	start	a snapshot is reserved; row `building`; warren-image(1) starts
 *	end	the snapshot has its image; row `ready` with its tags, in one transaction
 *	fail	row `error`; the snapshot is deleted
 *
 * A snapshot that no build owns is transient, so a process that dies between the steps
 * leaves nothing. A build ends with the key that started it, as a request does.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/strv.h"
#include "service/template/internal.h"

#define BUILD_OPTIONS_MAX (16U << 20)
#define BUILD_CHECK_MS    1000 /* how often its key and its time are checked */

struct template_build {
	struct template_build *next;
	struct service *service;
	struct template_build_row row; /* with strings of its own */
	char *spec, *dockerfile, *labels;
	char **tags;
	char failed[24]; /* the step that failed */
	bool finishing;  /* all steps are done */
	struct buf head; /* the request for warren-image(1) */
	struct template_archive *archives[TEMPLATE_STEPS_MAX];
	size_t n_archives;
	struct snapshot_op *snapshot;
	struct image_stream *stream;
	struct template_context *context;
	struct template_log log;
	struct permit permit; /* of the request that started it */
	struct loop_timer *timer;
	int64_t ends_at; /* the latest end */
};

static struct template_build *template_build_find(struct service *s, const char *id)
{
	for (struct template_build *b = template_module(s)->builds; b; b = b->next)
		if (strcmp(b->row.id, id) == 0)
			return b;
	return NULL;
}

const char *template_build_log(struct service *s, const char *id)
{
	const struct template_build *b = template_build_find(s, id);

	return !b ? NULL : b->log.text.data ? b->log.text.data : "";
}

static void template_build_free(struct template_build *b)
{
	(void)LIST_REMOVE(template_module(b->service)->builds, b);
	b->stream = image_stream_cancel(b->stream);
	b->context = template_context_stop(b->context);
	b->timer = loop_timer_free(b->timer);
	for (size_t i = 0; i < b->n_archives; i++)
		template_archive_put(b->archives[i]);
	template_log_done(&b->log);
	buf_done(&b->head);
	b->tags = strv_free(b->tags);
	free(b->spec);
	free(b->dockerfile);
	free(b->labels);
	free(b);
}

/* ---------------------------------------------------------------------- the end */

static void template_build_set_end(struct template_build *b, enum template_state state)
{
	b->row.state = state;
	b->row.ended_at = service_time();
	b->row.logs = b->log.text.data ? b->log.text.data : "";
}

/*
 * An error that is found while a step is planned comes before the line of the log that
 * announces the step; but it names the line of the Dockerfile, where each step is a
 * stage.
 */
static void template_build_find_step(struct template_build *b, const char *why)
{
	static const char file[] = "Dockerfile:";
	const char *at = b->dockerfile, *end;
	long step = 0, line = 0;

	if (strncmp(why, file, strlen(file)) != 0)
		return;
	for (line = strtol(why + strlen(file), NULL, 10);
	     line > 0 && (end = strchr(at, '\n')); at = end + 1, line--)
		if (template_log_stage(&b->log, at) >= 0)
			step = template_log_stage(&b->log, at);
	template_log_begin(&b->log, (size_t)step);
}

/* Describe the failure in the words of the SDK: it knows steps, not a Dockerfile. */
static void template_build_describe(const struct template_build *b, const char *why,
				    char ret[1024])
{
	static const char file[] = "Dockerfile:",
			  exited[] = "the command exited with status ";
	static const char no_user[] = "the image has no user ";
	const char *step =
		b->log.step && !b->finishing ? b->log.steps[b->log.step - 1] : "";
	const char *user = strstr(why, no_user);
	size_t n = strlen(file);

	if (strncmp(why, file, n) == 0) {
		n += strspn(why + n, "0123456789");
		why += n + strspn(why + n, ": ");
	}
	/* The log has the message of the tool that could not create it. */
	if (strncmp(step, "WORKDIR ", 8) == 0 &&
	    strncmp(why, exited, strlen(exited)) == 0)
		(void)snprintf(ret, 1024,
			       "WORKDIR: cannot create the directory '%.500s': the log "
			       "of the step says why",
			       step + 8);
	else if (strncmp(step, "RUN ", 4) != 0)
		(void)snprintf(ret, 1024, "%s", why);
	else if (strncmp(why, exited, strlen(exited)) == 0)
		(void)snprintf(ret, 1024,
			       "failed to run command '%.500s': exit status %s", step + 4,
			       why + strlen(exited));
	else if (user)
		(void)snprintf(ret, 1024,
			       "failed to run command '%.500s': command failed: "
			       "unauthenticated: invalid username: %.*s",
			       step + 4, (int)strcspn(user + strlen(no_user), " "),
			       user + strlen(no_user));
	else
		(void)snprintf(ret, 1024, "failed to run command '%.500s': %s", step + 4,
			       why);
}

static void template_build_fail(struct template_build *b, const char *cause)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	char why[1024];
	int r;

	template_build_find_step(b, cause);
	template_build_describe(b, cause, why);
	service_hide_dirs(b->service, why);
	template_log_add(&b->log, "error", why, strlen(why));
	(void)snprintf(b->failed, sizeof(b->failed), "%zu", b->log.step);
	b->row.step = b->finishing ? "finalize" : b->log.step ? b->failed : "base";
	b->row.reason = why;
	b->row.snapshot = "";
	template_build_set_end(b, TEMPLATE_ERROR);
	r = db_set_template_build(b->service->db, &b->row, &ignored);
	if (r < 0) { /* on a full disk, its log may be what does not fit */
		b->row.logs = "";
		r = db_set_template_build(b->service->db, &b->row, &ignored);
	}
	survive(b->service, r);
	b->snapshot = snapshot_abandon(b->snapshot);
	template_build_free(b);
}

static void template_build_on_snapshot(void *ctx, int r, const char *id,
				       const struct warren_error *failure)
{
	static const char text[] = "Build finished";
	struct template_build *b = ctx;
	struct service *s = b->service;
	struct warren_error err =
		failure ? *failure : (struct warren_error)WARREN_ERROR_INIT;

	b->snapshot = NULL;
	if (r == 0) {
		template_log_add(&b->log, "info", text, sizeof(text) - 1);
		b->row.snapshot = id;
		template_build_set_end(b, TEMPLATE_READY);
		r = db_finish_template_build(s->db, &b->row, (const char *const *)b->tags,
					     strv_len((union strv){ b->tags }), &err);
	}
	if (r < 0) {
		template_build_fail(b, err.msg);
		return;
	}
	snapshot_sweep(s); /* the build that had the tag before */
	template_build_free(b);
}

/* Why the key of the build is no longer valid; NULL: it is. */
static const char *template_build_key_end(const struct template_build *b)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	int r = permit_check(b->service, &b->permit, &ignored);

	return r == 0              ? NULL
	       : r == -EKEYEXPIRED ? "the key that started the build has expired"
				   : "the key that started the build was revoked";
}

static void template_build_on_done(void *ctx, int r, const char *json, size_t size,
				   const struct warren_error *err)
{
	struct template_build *b = ctx;
	const char *revoked = template_build_key_end(b);

	b->stream = NULL;
	template_log_take(&b->log, "\n", b->log.part.len > 0 ? 1 : 0);
	if (r < 0 || revoked)
		template_build_fail(b, revoked ? revoked : err->msg);
	else {
		b->finishing = true;
		snapshot_finish(b->snapshot, json, size, template_build_on_snapshot, b);
	}
}

static bool template_build_on_output(void *ctx, const char *text, size_t n)
{
	struct template_build *b = ctx;

	template_log_take(&b->log, text, n);
	return true;
}

static void template_build_on_opened(void *ctx, int fd)
{
	struct template_build *b = ctx;

	b->context = template_context_start(b->service, fd, &b->head, b->dockerfile,
					    b->archives, b->n_archives);
	b->n_archives = 0;
	buf_done(&b->head);
}

static void template_build_on_timer(void *ctx)
{
	struct template_build *b = ctx;
	const char *why = template_build_key_end(b);

	if (!why && service_time() >= b->ends_at)
		why = "the build did not end within an hour";
	if (why)
		template_build_fail(b, why);
	else
		loop_timer_set(b->timer, BUILD_CHECK_MS);
}

void template_build_cancel(struct service *s, const char *template)
{
	struct template_build *next;

	for (struct template_build *b = template_module(s)->builds; b; b = next) {
		next = b->next;
		if (strcmp(b->row.template, template) == 0)
			template_build_fail(b, "the template was deleted");
	}
}

/* ---------------------------------------------------------------------- the start */

/* Copy what the build needs of the request. */
static int template_build_copy(struct template_build *b,
			       const struct template_build_request *q)
{
	b->row = (struct template_build_row){ .state = TEMPLATE_BUILDING,
					      .snapshot = "",
					      .reason = "",
					      .step = "",
					      .logs = "" };
	(void)memcpy(b->row.id, q->row->id, sizeof(b->row.id));
	(void)memcpy(b->row.template, q->row->template, sizeof(b->row.template));
	b->spec = strdup(q->row->spec);
	b->dockerfile = strdup(q->dockerfile);
	b->labels = strdup(q->labels);
	b->row.spec = b->spec;
	for (const char *const *tag = q->tags; *tag; tag++)
		if (strv_add(&b->tags, *tag) < 0)
			return -ENOMEM;
	for (size_t i = 0; i < q->n_steps; i++)
		if (strv_add(&b->log.steps, q->steps[i]) < 0)
			return -ENOMEM;
	b->log.n_steps = q->n_steps;
	return b->spec && b->dockerfile && b->labels ? 0 : -ENOMEM;
}

static int template_build_take_archives(struct template_build *b,
					const struct template_build_request *q,
					struct warren_error *err)
{
	for (size_t i = 0; i < q->n_steps; i++) {
		struct template_archive *a;
		bool known = false;

		for (size_t k = 0; q->hashes[i] && k < b->n_archives; k++)
			known |= strcmp(b->archives[k]->hash, q->hashes[i]) == 0;
		if (!q->hashes[i] || known)
			continue;
		a = template_archive_get(b->service, q->tenant, q->hashes[i]);
		if (!a)
			return error_set(err, ENOENT,
					 "step %zu: its files were not uploaded, or are "
					 "no longer kept: upload them again",
					 i + 1);
		b->archives[b->n_archives++] = a;
		/* ADD would copy it as it is. */
		if (!a->known)
			return error_set(err, EINVAL,
					 "step %zu: what was uploaded is not an archive: "
					 "it must be a tar archive, which may be "
					 "compressed with gzip, bzip2, xz or zstd",
					 i + 1);
	}
	return 0;
}

/* Write the request for warren-image(1). */
static int template_build_put_head(struct template_build *b, json_t *options,
				   struct warren_error *err)
{
	char *text = NULL;

	if (json_object_set_new(options, "snapshot",
				json_string(snapshot_op_id(b->snapshot))) == 0)
		text = json_dumps(options, JSON_COMPACT);
	if (text) {
		buf_printf(&b->head, "%010zu\n", strlen(text));
		buf_puts(&b->head, text);
	}
	free(text);
	return text && !b->head.failed ? 0 : error_errno(err, ENOMEM, "start a build");
}

static int template_build_begin(struct template_build *b,
				const struct template_build_request *q,
				struct warren_error *err)
{
	static const struct image_stream_ops ops = { .opened = template_build_on_opened,
						     .done = template_build_on_done,
						     .output = template_build_on_output };
	const struct image_stream_request stream = { .kind = IMAGE_STREAM_BUILD,
						     .tenant = q->tenant,
						     .memory = q->memory,
						     .cpu_millis = q->cpu_millis,
						     .disk = q->disk };
	const struct snapshot_request snapshot = { .labels = b->labels,
						   .transient = true,
						   .quota = q->quota };
	int r = template_build_take_archives(b, q, err);

	if (r == 0 &&
	    loop_timer_new(b->service->loop, template_build_on_timer, b, &b->timer) < 0)
		r = error_errno(err, ENOMEM, "start a build");
	/* It is often refused, and asks for the head in a later turn of the loop. */
	if (r == 0)
		r = image_stream_start(b->service, &stream, &ops, b, &b->stream, err);
	if (r == 0)
		r = snapshot_reserve(b->service, q->tenant, &snapshot, &b->snapshot, err);
	if (r == 0)
		r = template_build_put_head(b, q->options, err);
	return r < 0 ? r : db_set_template_build(b->service->db, &b->row, err);
}

int template_build_start(struct service *s, const struct template_build_request *request,
			 struct warren_error *err)
{
	struct template_build *b;
	int r;

	if (template_build_find(s, request->row->id))
		return error_set(err, EBUSY, "the build has begun before");
	if (request->n_steps > TEMPLATE_STEPS_MAX)
		return error_set(err, E2BIG, "a template has at most %d steps",
				 TEMPLATE_STEPS_MAX);
	b = calloc(1, sizeof(*b));
	if (!b)
		return error_errno(err, ENOMEM, "start a build");
	b->service = s;
	b->head = (struct buf)BUF_INIT(BUILD_OPTIONS_MAX);
	template_log_init(&b->log);
	LIST_APPEND(template_module(s)->builds, b);
	r = template_build_copy(b, request) < 0
		    ? error_errno(err, ENOMEM, "start a build")
		    : template_build_begin(b, request, err);
	if (r < 0) {
		b->snapshot = snapshot_abandon(b->snapshot);
		template_build_free(b);
		return r;
	}
	b->permit = s->permit;
	b->ends_at = service_time() + TEMPLATE_BUILD_MS;
	loop_timer_set(b->timer, BUILD_CHECK_MS);
	return 0;
}

/* ------------------------------------------------------------------------ hooks */

static int template_open(struct service *s, const struct service_options *options UNUSED,
			 struct warren_error *err)
{
	return db_end_template_builds(
		s->db, "the service was restarted during the build: build it again",
		service_time(), err);
}

/* The snapshots are closed already: their rows say that they have no image. */
static void template_close(struct service *s)
{
	struct template_module *m = template_module(s);

	while (m->builds) {
		m->builds->snapshot = NULL;
		template_build_free(m->builds);
	}
	template_archives_close(s);
}

const struct service_module template_hooks = {
	.number = MODULE_TEMPLATE,
	.service_size = sizeof(struct template_module),
	.open = template_open,
	.close = template_close,
};
