/* SPDX-License-Identifier: Apache-2.0 */
/* request.c - answer a client of the service about works */
#include "cli/work/request.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/date.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "cli/command.h"
#include "cli/work/decide.h"
#include "cli/work/select.h"
#include "cli/work/show.h"
#include "cli/work/work_list.h"

/* The maximum size of an answer, in bytes. */
#define REQUEST_MAX ((size_t)256 << 20)
/* The maximum number of entries of a list. */
#define REQUEST_LIST_MAX 1000

struct request {
	bool ignored;
	unsigned allow;
	enum accept_conflicts conflicts;
	uint64_t patch, paths; /* bytes of standard input; 0: none */
	const char *after;     /* list: only larger ids */
	uint64_t limit;        /* list: at most */
	const char *work;      /* id, beginning of an id, or name */
	/* The result. */
	struct buf out;
	bool conflict; /* nothing was accepted, because changes are in conflict */
	bool unopened; /* the work could not be opened */
};

static int request_open(struct request *q, bool exclusive, struct work **ret,
			struct warren_error *err)
{
	int r = select_work(q->work, exclusive, ret, err);

	q->unopened = r < 0;
	return r;
}

static struct decide_wanted request_wanted(const struct request *q)
{
	return (struct decide_wanted){
		.patch = { q->patch ? "-" : NULL, q->patch },
		.paths_from = { q->paths ? "-" : NULL, q->paths },
	};
}

/* -------------------------------------------------------------------- works */

static int request_by_id(const void *a, const void *b)
{
	return strcmp(((const struct work_item *)a)->id,
		      ((const struct work_item *)b)->id);
}

static int request_list(struct request *q, struct warren_error *err)
{
	AUTO_WORK_LIST struct work_list all = { 0 };
	struct json j = { .out = &q->out };
	const char *last = NULL;
	size_t i = 0, shown = 0;
	int r = works_list(NULL, &all, err);

	if (r < 0)
		return r;
	if (all.n > 0)
		qsort(all.v, all.n, sizeof(*all.v), request_by_id);
	json_open(&j, NULL, '{');
	json_open(&j, "works", '[');
	for (; i < all.n && shown < q->limit; i++) {
		if (q->after && strcmp(all.v[i].id, q->after) <= 0)
			continue;
		work_list_json(&j, &all.v[i]);
		last = all.v[i].id;
		shown++;
	}
	json_close(&j, ']');
	json_str(&j, "next_cursor", i < all.n ? last : NULL);
	json_close(&j, '}');
	return 0;
}

static int request_show(struct request *q, struct warren_error *err)
{
	AUTO_WORK_LIST struct work_list all = { 0 };
	struct json j = { .out = &q->out };
	AUTO_WORK struct work *w = NULL;
	int r = request_open(q, false, &w, err);

	if (r == 0)
		r = works_list(NULL, &all, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < all.n; i++)
		if (strcmp(all.v[i].id, w->id) == 0) {
			work_list_json(&j, &all.v[i]);
			return 0;
		}
	q->unopened = true; /* it was removed just now */
	return error_set(err, ENOENT, "there is no work '%s'", q->work);
}

/* ------------------------------------------------------------------ changes */

static int request_find(struct request *q, unsigned flags, struct work **ret_work,
			struct changes *ret, struct warren_error *err)
{
	const struct decide_wanted wanted = request_wanted(q);
	AUTO_PATHS struct input_paths paths = { 0 };
	int r = request_open(q, false, ret_work, err);

	if (r == 0)
		r = input_paths(&wanted.paths_from, NULL, &paths, err);
	if (r == 0)
		r = select_changes(*ret_work, paths.v,
				   flags | (q->ignored ? CHANGES_EXPAND : 0), ret, err);
	return r;
}

static int request_changes(struct request *q, struct warren_error *err)
{
	AUTO_CHANGES struct changes changes = { 0 };
	AUTO_WORK struct work *w = NULL;
	int r = request_find(q, CHANGES_LINES, &w, &changes, err);

	if (r == 0)
		show_changes_json(w, &changes, &q->out);
	return r;
}

static int request_diff(struct request *q, struct warren_error *err)
{
	const struct unified_options options = { .context = PATCH_CONTEXT,
						 .binary = true };
	AUTO_CHANGES struct changes changes = { 0 };
	AUTO_WORK struct work *w = NULL;
	int r = request_find(q, 0, &w, &changes, err);

	return r < 0 ? r
		     : show_patches(w, &changes, q->ignored, true, &options, &q->out,
				    err);
}

/* ------------------------------------------------------------------- decide */

/* Answer with what was done and what is left. Closes the work, or removes it. */
static void request_finish(struct request *q, struct work *w, struct decide *d)
{
	(void)memcpy(d->done.id, w->id, sizeof(d->done.id));
	d->work = w;
	decide_finish(d);
	decide_put_json(d, &q->out);
}

static int request_accept(struct request *q, struct warren_error *err)
{
	const struct accept_options o = { .allow = q->allow,
					  .ignored = q->ignored,
					  .conflicts = q->conflicts };
	const struct decide_wanted wanted = request_wanted(q);
	AUTO_DECIDE_FOUND struct decide_found found = { 0 };
	AUTO_DECIDE struct decide d = { .command = REQUEST_WORD,
					.quiet = true,
					.done = { .accepted = true } };
	struct accept_result *result = &d.done.result;
	AUTO_WORK struct work *w = NULL;
	int r = request_open(q, true, &w, err);

	if (r == 0)
		r = decide_find(w, &wanted, &o, &found, err);
	if (r == 0)
		r = accept_changes(w, found.items.v, found.items.n, &o, result, err);
	q->conflict = r == -EEXIST && result->n_conflicts;
	if (r < 0 && !q->conflict)
		return r;
	d.left = found.left;
	d.done.n = result->accepted;
	request_finish(q, TAKE_PTR(w), &d);
	return 0;
}

static int request_reject(struct request *q, struct warren_error *err)
{
	const struct decide_wanted wanted = request_wanted(q);
	AUTO_DECIDE_FOUND struct decide_found found = { 0 };
	AUTO_DECIDE struct decide d = { .command = REQUEST_WORD, .quiet = true };
	AUTO_WORK struct work *w = NULL;
	int r = request_open(q, true, &w, err);

	if (r == 0)
		r = decide_find(w, &wanted, NULL, &found, err);
	if (r == 0)
		r = reject_changes(w, found.items.v, found.items.n, err);
	if (r < 0)
		return r;
	d.done.n = found.items.n;
	request_finish(q, TAKE_PTR(w), &d);
	return 0;
}

static int request_remove(struct request *q, struct warren_error *err)
{
	AUTO_WORK struct work *w = NULL;
	int r = request_open(q, true, &w, err);

	return r < 0 ? r : work_remove(TAKE_PTR(w), err);
}

/* ------------------------------------------------------------------- answer */

/* Exit when the reader of the answer is gone. Only for what changes nothing. */
static void *request_watch_reader(void *unused)
{
	struct pollfd fd = { .fd = STDOUT_FILENO };

	while (poll(&fd, 1, -1) < 0 && errno == EINTR)
		;
	_exit(STATUS_FAILED);
	return unused;
}

/* @err NULL: success. */
static int request_answer(const struct request *q, const struct warren_error *err)
{
	AUTO_BUF struct buf head = BUF_INIT(16384);
	const int status = err ? STATUS_FAILED : q->conflict ? DECIDE_CONFLICTS : 0;
	struct json j = { .out = &head };

	json_open(&j, NULL, '{');
	json_int(&j, "status", status);
	if (err) {
		json_int(&j, "errno", err->code);
		json_bool(&j, "work", q->unopened);
		json_str(&j, "message", err->msg);
	} else {
		json_u64(&j, "size", q->out.len);
	}
	json_close(&j, '}');
	buf_puts(&head, "\n");
	if (!head.failed && fd_write_all(STDOUT_FILENO, head.data, head.len) == 0 &&
	    !err && q->out.len)
		(void)!fd_write_all(STDOUT_FILENO, q->out.data, q->out.len);
	return status;
}

static const struct {
	const char *word;
	int (*run)(struct request *q, struct warren_error *err);
	bool changes; /* it is completed even if no client waits */
	bool all;     /* it is about all works */
} request_verbs[] = {
	{ "list", request_list, false, true },
	{ "show", request_show, false, false },
	{ "changes", request_changes, false, false },
	{ "diff", request_diff, false, false },
	{ "accept", request_accept, true, false },
	{ "reject", request_reject, true, false },
	{ "remove", request_remove, true, false },
};

static int request_opt_number(void *field, const char *value, struct warren_error *err)
{
	return parse_u64(value, UINT64_MAX, field, err);
}

static int request_opt_allow(void *field, const char *value, struct warren_error *err)
{
	return decide_parse_allow(value, field, err);
}

static int request_opt_conflicts(void *field, const char *value, struct warren_error *err)
{
	return decide_parse_conflicts(value, field, err);
}

#define FIELD(name) offsetof(struct request, name)

static const struct opt request_table[] = {
	{ .name = "ignored", .set = opt_flag, .field = FIELD(ignored) },
	{ .name = "allow",
	  .value = "KIND",
	  .set = request_opt_allow,
	  .field = FIELD(allow) },
	{ .name = "conflicts",
	  .value = "HOW",
	  .set = request_opt_conflicts,
	  .field = FIELD(conflicts) },
	{ .name = "patch",
	  .value = "BYTES",
	  .set = request_opt_number,
	  .field = FIELD(patch) },
	{ .name = "paths",
	  .value = "BYTES",
	  .set = request_opt_number,
	  .field = FIELD(paths) },
	{ .name = "after", .value = "ID", .set = opt_text, .field = FIELD(after) },
	{ .name = "limit",
	  .value = "N",
	  .set = request_opt_number,
	  .field = FIELD(limit) },
};

static const struct opts request_opts = {
	.table = request_table,
	.n = ARRAY_SIZE(request_table),
	.operands = "WORK",
};

static int request_run(struct request *q, int argc, char **argv, struct warren_error *err)
{
	size_t verb = 0;
	pthread_t thread;
	int first, r;

	while (argc > 1 && verb < ARRAY_SIZE(request_verbs) &&
	       strcmp(request_verbs[verb].word, argv[1]) != 0)
		verb++;
	if (argc < 2 || verb == ARRAY_SIZE(request_verbs))
		return error_set(err, EINVAL, "there is no such request");
	r = opts_parse(&request_opts, argc - 1, argv + 1, q, &first, err);
	if (r != OPTS_OK)
		return r < 0 ? r : error_set(err, EINVAL, "there is no such request");
	q->work = argv[1 + first];
	if (request_verbs[verb].all ? first != argc - 1 : first != argc - 2)
		return error_set(err, EINVAL, "one work is expected");
	if (q->patch && q->paths)
		return error_set(err, EINVAL, "a patch takes no paths");
	/* A path that is relative to the project must not be one of this directory. */
	if (chdir("/") < 0)
		return error_errno(err, errno, "change to the directory /");
	if (!request_verbs[verb].changes &&
	    pthread_create(&thread, NULL, request_watch_reader, NULL) != 0)
		return error_errno(err, EAGAIN, "start a thread");
	r = request_verbs[verb].run(q, err);
	if (q->out.full)
		return error_set(err, EFBIG,
				 "the answer has more than %zu bytes: give paths",
				 REQUEST_MAX);
	if (r == 0 && q->out.failed)
		return error_errno(err, ENOMEM, "answer");
	return r;
}

int request_main(int argc, char **argv)
{
	struct request q = { .limit = REQUEST_LIST_MAX, .out = BUF_INIT(REQUEST_MAX) };
	struct warren_error err = WARREN_ERROR_INIT;
	int r, status;

	/* That of the service protects its own files; these belong to the project. */
	(void)umask(022);
	r = request_run(&q, argc, argv, &err);
	status = request_answer(&q, r < 0 ? &err : NULL);
	buf_done(&q.out);
	return status;
}
