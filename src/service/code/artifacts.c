/* SPDX-License-Identifier: Apache-2.0 */
/*
 * artifacts.c - read the files that a program leaves, if they match the request
 *
 * The walk opens each directory by its name in its parent, and a file by its name in its
 * directory, without following links: a process that the program left running can replace
 * files, but cannot redirect the walk. Only regular files are read. Their number, depth
 * and size are limited; the result reports whether some were omitted.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "base/utf8.h"
#include "service/code/internal.h"

#define CODE_READ_PIECE (256U << 10)
#define CODE_COLLECT_MS 10000 /* time for all artifacts together */

void code_collect_cancel(struct code_run *run)
{
	run->walk = walk_free(run->walk);
	loop_task_cancel(&run->read_turn);
	if (run->fd >= 0)
		(void)close(TAKE_FD(run->fd));
}

static const char *code_artifact_name(const char *path)
{
	size_t n = strlen(CODE_DIR "/");

	return strncmp(path, CODE_DIR "/", n) == 0 ? path + n : path;
}

/* A name that is not UTF-8 cannot be written in JSON. */
static bool code_artifact_wanted(struct code_run *run, const char *name)
{
	int r = code_plan_wants(&run->plan, name);

	if (r < 0 || (r > 0 && !utf8_valid(name, strlen(name)))) {
		run->result.artifacts_complete = false;
		return false;
	}
	return r > 0;
}

static int code_artifact_add(struct code_run *run, const char *name)
{
	struct code_result *r = &run->result;
	struct code_artifact *list =
		reallocarray(r->artifacts, r->n_artifacts + 1, sizeof(*list));
	char *path = list ? strdup(name) : NULL;

	if (list)
		r->artifacts = list;
	if (!path)
		return -ENOMEM;
	list[r->n_artifacts++] = (struct code_artifact){ .path = path };
	return 0;
}

static void code_artifact_drop(struct code_run *run)
{
	struct code_artifact *a = &run->result.artifacts[--run->result.n_artifacts];

	run->artifact_bytes -= a->size;
	free(a->path);
	free(a->data);
	run->result.artifacts_complete = false;
}

/* Read the next piece of the open file, which may have changed in the meantime. */
static void code_artifact_read(void *ctx)
{
	struct code_run *run = ctx;
	struct code_artifact *a = &run->result.artifacts[run->result.n_artifacts - 1];
	uint64_t left = CODE_ARTIFACTS_BYTES - run->artifact_bytes;
	size_t n = left < CODE_READ_PIECE ? (size_t)left : CODE_READ_PIECE;
	char *data, extra;
	ssize_t got;

	if (!code_lease(run, CODE_READ_PIECE))
		return;
	data = realloc(a->data, a->size + n + 1);
	if (data)
		a->data = data;
	got = data ? pread(run->fd, data + a->size, n, (off_t)a->size) : -1;
	if (got > 0) {
		a->size += (size_t)got;
		run->artifact_bytes += (size_t)got;
		if (run->artifact_bytes < CODE_ARTIFACTS_BYTES) {
			loop_later(run->service->loop, &run->read_turn);
			return;
		}
		got = pread(run->fd, &extra, 1, (off_t)a->size) == 0 ? 0 : -1;
	}
	if (got < 0 || n == 0)
		code_artifact_drop(run);
	(void)close(TAKE_FD(run->fd));
	run->n_collected = run->result.n_artifacts;
	walk_go_on(run->walk, WALK_ON);
}

static void code_artifact_on_open(void *ctx, struct files_answer *a,
				  const struct warren_error *err)
{
	struct code_run *run = ctx;
	struct stat st;

	if (!err)
		run->fd = TAKE_FD(a->fd);
	if (run->fd < 0 || fstat(run->fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    (uint64_t)st.st_size > CODE_ARTIFACTS_BYTES - run->artifact_bytes) {
		/* If the file does not exist any more, it is not an artifact of the
		 * program. */
		bool gone = err && (err->code == ENOENT || err->code == ELOOP);
		bool complete = run->result.artifacts_complete;

		code_artifact_drop(run);
		run->result.artifacts_complete = complete && gone;
		if (run->fd >= 0)
			(void)close(TAKE_FD(run->fd));
		run->n_collected = run->result.n_artifacts;
		walk_go_on(run->walk, WALK_ON);
		return;
	}
	run->read_turn = (struct loop_task){ .fn = code_artifact_read, .ctx = run };
	loop_later(run->service->loop, &run->read_turn);
}

static enum walk_say code_artifact_on_entry(void *ctx, const struct walk_entry *e)
{
	struct code_run *run = ctx;
	const char *name = code_artifact_name(e->path);
	struct warren_error err = WARREN_ERROR_INIT;

	if (S_ISDIR(e->found->is.mode)) {
		/* The files below the directory are not known; some of them may match. */
		if (e->depth >= CODE_ARTIFACT_DEPTH || strlen(name) >= CODE_ARTIFACT_PATH)
			run->result.artifacts_complete = false;
		return strlen(name) >= CODE_ARTIFACT_PATH ? WALK_PAST : WALK_ON;
	}
	if (!S_ISREG(e->found->is.mode) || strlen(name) >= CODE_ARTIFACT_PATH ||
	    !code_artifact_wanted(run, name))
		return WALK_ON;
	if (run->result.n_artifacts == CODE_ARTIFACTS_MAX ||
	    e->found->is.size > CODE_ARTIFACTS_BYTES - run->artifact_bytes) {
		run->result.artifacts_complete = false;
		return run->result.n_artifacts == CODE_ARTIFACTS_MAX ? WALK_STOP
								     : WALK_ON;
	}
	if (code_artifact_add(run, name) < 0) {
		(void)error_errno(&err, ENOMEM, "collect the artifacts");
		run->result.artifacts_complete = false;
		return WALK_STOP;
	}
	files_open(run->files, e->dir, e->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0,
		   code_artifact_on_open, run);
	return WALK_WAIT;
}

static int code_artifact_by_path(const void *a, const void *b)
{
	return strcmp(((const struct code_artifact *)a)->path,
		      ((const struct code_artifact *)b)->path);
}

static void code_artifact_on_end(void *ctx, int r, const struct warren_error *err UNUSED)
{
	struct code_run *run = ctx;

	run->walk = NULL;
	if (r < 0)
		run->result.artifacts_complete = false;
	if (run->result.n_artifacts > 1)
		qsort(run->result.artifacts, run->result.n_artifacts,
		      sizeof(*run->result.artifacts), code_artifact_by_path);
	code_finish(run);
}

/* The directory cannot be read, and files below it may match. */
static void code_artifact_on_unread(void *ctx)
{
	((struct code_run *)ctx)->result.artifacts_complete = false;
}

/* A process that the program left running may delay this, but only for a limited time. */
static void code_collect_late(void *ctx)
{
	struct code_run *run = ctx;

	/* Drop the file that is being opened or read. */
	if (run->n_collected < run->result.n_artifacts)
		code_artifact_drop(run);
	run->walk = walk_free(run->walk);
	code_artifact_on_end(run, -ETIMEDOUT, NULL);
}

static void code_collect_on_begun(void *ctx, struct files *f,
				  const struct warren_error *err)
{
	static const struct walk_options options = { .depth = CODE_ARTIFACT_DEPTH,
						     .nofollow = true,
						     .entry = code_artifact_on_entry,
						     .unread = code_artifact_on_unread,
						     .end = code_artifact_on_end };
	struct code_run *run = code_ticket_use(ctx);

	if (!run) {
		(void)files_end(f);
	} else if (!f) {
		code_fail_used(run, err);
	} else {
		run->files = f;
		walk_start(f, CODE_DIR, &options, run, &run->walk);
	}
}

void code_collect(struct code_run *run)
{
	struct sandbox *sandbox;
	struct code_ticket *t;

	if (!run->plan.artifacts) {
		code_finish(run);
		return;
	}
	run->timer = loop_timer_free(run->timer);
	if (loop_timer_new(run->service->loop, code_collect_late, run, &run->timer) < 0) {
		code_artifact_on_end(run, -ENOMEM, NULL);
		return;
	}
	loop_timer_set(run->timer, CODE_COLLECT_MS);
	sandbox = code_use_sandbox(run);
	t = sandbox ? code_ticket_new(run) : NULL;
	if (t)
		files_begin(sandbox, NULL, code_collect_on_begun, t);
}
