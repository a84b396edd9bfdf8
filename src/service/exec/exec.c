/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.c - execs: started by init, written to, signalled, ended
 *
 * An exec is a row in the store, a journal file and, while it runs or somebody
 * looks at it, a struct run. The row and the file are there before anything is
 * executed, so that whatever runs can be found again; what could not be started
 * is removed again before that is told.
 *
 * To write the row takes a tenth of what init needs to start a process: both are done
 * at once. init gets a gate, behind which its child waits until the row is there;
 * without one (a row that cannot be written, our own end) nothing is executed.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/utf8.h"
#include "service/core/internal.h"
#include "shellproto/shellproto.h"

#define ARGV_SHOWN \
	8192U /* bytes of a command line that are kept with its exec, as JSON */

/* --------------------------------------------------------------- the struct */

/* One block for all strings of a row. */
int row_copy_exec(struct exec_row *to, const struct exec_row *from)
{
	const char *const texts[] = { from->argv, from->cwd, from->user, from->journal };
	const char **const at[] = { &to->argv, &to->cwd, &to->user, &to->journal };
	size_t size = 0;
	char *block;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		size += texts[i] ? strlen(texts[i]) + 1 : 0;
	block = malloc(size + 1);
	if (!block)
		return -ENOMEM;
	*to = *from;
	to->block = block;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		*at[i] = texts[i] ? strcpy(block, texts[i]) : NULL;
		block += texts[i] ? strlen(texts[i]) + 1 : 0;
	}
	return 0;
}

struct run *run_load(struct box *box, const struct exec_row *row)
{
	struct run *run = calloc(1, sizeof(*run));

	if (!run)
		return NULL;
	if (row_copy_exec(&run->row, row) < 0) {
		free(run);
		return NULL;
	}
	run->refs = 1;
	run->service = box->service;
	run->box = box;
	run->loop = box->service->loop;
	run->journal = run->notify = run->input = run->poke = -1;
	run->held_at = UINT64_MAX;
	run->next = box->runs;
	box->runs = run;
	run->listed = true;
	run->counted = !run->row.ended && !run->row.session;
	box->n_running += run->counted;
	return run;
}

static void uncount(struct run *run)
{
	run->box->n_running -= run->counted;
	run->counted = false;
}

static void delist(struct run *run)
{
	struct run **p;

	if (!run->listed || !run->box)
		return; /* without a box it is in no list */
	uncount(run);
	for (p = &run->box->runs; *p != run; p = &(*p)->next)
		;
	*p = run->next;
	run->listed = false;
}

struct run *run_ref(struct run *run)
{
	run->refs++;
	return run;
}

struct run *run_unref(struct run *run)
{
	if (!run || --run->refs > 0)
		return NULL;
	journals_settle(run);
	delist(run);
	run->watch = loop_watch_free(run->watch);
	run->hold_timer = loop_timer_free(run->hold_timer);
	run->first_timer = loop_timer_free(run->first_timer);
	loop_close(run->loop, run->journal); /* it may have lost its name */
	for (size_t i = 0; i < 3; i++) {
		int fd = (const int[]){ run->notify, run->input, run->poke }[i];

		if (fd >= 0)
			(void)close(fd);
	}
	lease_end(run->service, LEASE_DESCRIPTORS, &run->descriptors);
	lease_end(run->service, LEASE_TERMINALS, &run->terminal);
	exec_row_done(&run->row);
	free(run);
	return NULL;
}

const struct exec_row *run_row(const struct run *run)
{
	return &run->row;
}

struct box *run_box(const struct run *run)
{
	return run->box;
}

/* A run that ended is let go of when nobody looks at it any more. */
struct run *run_find(struct box *box, const char *id)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_EXEC_ROW struct exec_row row = { 0 };
	struct run *run;

	for (run = box->runs; run; run = run->next)
		if (strcmp(run->row.id, id) == 0)
			return run_ref(run);
	if (db_get_exec(box->service->db, box->row.id, id, &row, &err) < 0)
		return NULL;
	run = run_load(box, &row);
	/* What is in the list lives by who looks at it, unless it runs. */
	if (run && !run->row.ended) {
		(void)run_ref(run); /* the list's, which it gives up when it ends */
		if (run_finish_by_journal(run))
			return run;
		run->refs--;
		run->lost = true;
		uncount(run);
	}
	return run;
}

/* ------------------------------------------------------------------ journals */

int service_spool(struct service *s)
{
	int fd = openat(s->journals, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd;
}

int run_open_journal(struct run *run, struct warren_error *err)
{
	if (run->journal >= 0)
		return 0;
	run->journal = openat(run->box ? run->box->service->journals : -1,
			      run->row.journal ? run->row.journal : "",
			      O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	return run->journal < 0 ? error_errno(err, errno, "open the exec's output") : 0;
}

/* ------------------------------------------------------------------ starting */

struct starting {
	struct box *box;
	struct run *run;
	/* A copy: it may have to wait for the sandbox to wake or for its passwd. */
	struct run_start start;
	struct talk_user user;
	bool written; /* the row is in the store */
	run_fn done;  /* NULL: it was refused, and only init has yet to answer */
	void *ctx;
	uint64_t begun;
};

static void free_list(const char *const *list)
{
	for (const char *const *p = list; p && *p; p++)
		free((void *)(uintptr_t)*p);
	free((void *)(uintptr_t)list);
}

static const char *const *copy_list(const char *const *list)
{
	size_t n = 0;
	const char **copy;

	while (list && list[n])
		n++;
	copy = calloc(n + 1, sizeof(*copy));
	if (!copy)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		copy[i] = strdup(list[i]);
		if (!copy[i]) {
			free_list(copy);
			return NULL;
		}
	}
	return copy;
}

int run_start_copy(struct run_start *to, const struct run_start *from)
{
	*to = *from;
	to->argv = copy_list(from->argv);
	to->env = copy_list(from->env);
	to->cwd = from->cwd ? strdup(from->cwd) : NULL;
	to->user = from->user ? strdup(from->user) : NULL;
	if (to->argv && to->env && !to->cwd == !from->cwd && !to->user == !from->user)
		return 0;
	run_start_done(to);
	return -ENOMEM;
}

void run_start_done(struct run_start *s)
{
	free_list(s->argv);
	free_list(s->env);
	free((void *)(uintptr_t)s->cwd);
	free((void *)(uintptr_t)s->user);
	*s = (struct run_start){ 0 };
}

static void starting_free(struct starting *st)
{
	run_start_done(&st->start);
	free(st);
}

/* It could not be started: as if it had never been asked for. */
static void refuse(struct starting *st, const struct warren_error *err)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct run *run = TAKE_PTR(st->run);
	run_fn done = TAKE_PTR(st->done);

	if (run) {
		run_hold_first_end(run);
		if (run->box && st->written) {
			survive(run->box->service, db_delete_exec(run->box->service->db,
								  run->row.id, &ignored));
			run->box->n_kept--;
		}
		if (run->box)
			run_remove_journal(run->box->service, run->row.journal);
		journals_drop(run);
		(void)run_unref(run);
	}
	done(st->ctx, NULL, err);
}

static void fail(struct starting *st, const struct warren_error *err)
{
	if (st->done)
		refuse(st, err);
	starting_free(st);
}

/* A pipe whose reader does not read must not stop the loop. */
static int take_stream(struct answer *a, uint32_t bit)
{
	int fd = answer_take(a, bit);
	int flags = fd >= 0 ? fcntl(fd, F_GETFL) : -1;

	if (flags >= 0 && !(flags & O_NONBLOCK))
		(void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	return fd;
}

void run_take_streams(struct run *run, struct answer *a)
{
	/* What is there from an earlier line leads to the same, and may be in use. */
	if (run->input < 0 && !run->input_ended)
		run->input = take_stream(a, PROTO_GIVES_INPUT);
	if (run->poke < 0)
		run->poke = take_stream(a, PROTO_GIVES_POKE);
	run->attached = true;
}

static void on_started(void *ctx, struct answer *a, const struct warren_error *failure)
{
	struct starting *st = ctx;
	struct run *run = st->run;
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_exec_spec spec = { .argv = st->start.argv, .cwd = st->start.cwd };

	if (failure || !st->done) {
		/* Whether it was started nobody knows. */
		if (failure && run && run->box)
			box_disown(run->box, run->row.number);
		fail(st, failure);
		return;
	}
	if (a->m.h.type != PROTO_REPLY || reply_code(&a->m.reply) != 0) {
		if (a->m.h.type != PROTO_REPLY)
			(void)error_errno(&err, EPROTO, "start '%s'", st->start.argv[0]);
		else if (reply_code(&a->m.reply) == EAGAIN &&
			 a->m.reply.stage == PROTO_STAGE_REQUEST)
			(void)lease_deny(st->box->service, LEASE_EXECS, PROTO_EXECS_MAX,
					 PROTO_EXECS_MAX, &err);
		else
			(void)reply_explain(a, &spec, st->box->is.base.workdir, &err);
		/* It runs, and we cannot reach it: it is to end, as what could not be started. */
		if (a->lost)
			run_signal(run, SIGKILL, PROTO_WHOM_TREE, service_ignore, NULL);
		fail(st, &err);
		return;
	}
	run_take_streams(run, a);
	run->starting = false;
	figure_add(st->box->service, FIGURE_EXEC, (clock_now() - st->begun) / 1000);
	st->box->service->figures.execs++;
	event_emit(st->box->service, EVENT_EXEC_STARTED, st->box, run->row.id, NULL);
	st->done(st->ctx, run, NULL);
	starting_free(st);
}

static int make_journal(struct run *run, struct warren_error *err)
{
	int fd = blank_take(run->box->service, run->row.journal);

	if (fd < 0)
		return error_errno(err, -fd, "make a file for the output");
	run->journal = fd;
	run->notify = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return run->notify < 0 ? error_errno(err, errno, "make an eventfd") : 0;
}

/* A journal, an eventfd, and what init hands over. */
static int lease_run(struct starting *st, struct warren_error *err)
{
	const struct run_start *from = &st->start;
	uint64_t n = 2 + (from->input || from->pty) + (from->control ? 1 : 0);

	int r = lease_take(st->box->service, LEASE_DESCRIPTORS, st->box->row.owner, n,
			   &st->run->descriptors, err);

	if (r < 0 || !from->pty)
		return r;
	return lease_take(st->box->service, LEASE_TERMINALS, st->box->row.owner, 1,
			  &st->run->terminal, err);
}

static uint64_t journal_capacity(const struct starting *st)
{
	uint64_t asked =
		st->start.journal ? st->start.journal : st->box->service->journal_default;

	return asked < JOURNAL_CAPACITY_MIN ? JOURNAL_CAPACITY_MIN : asked;
}

/* Whether the first @n bytes of @word, or what is whole of them, were put. */
static bool put_word(struct json *j, const char *word, size_t n, size_t *ret)
{
	struct buf *out = j->out;
	struct json before = *j;
	size_t len = out->len, put = word[n] ? n - utf8_cut(word, n) : n;

	json_strn(j, NULL, word, put);
	if (out->len <= ARGV_SHOWN) {
		*ret = put;
		return true;
	}
	out->len = len;
	*j = before;
	return false;
}

/*
 * As it is shown, in JSON. Rows of execs outlive them, in a store that all tenants use: of a long
 * command line they have the beginning, and how much is missing.
 */
static void write_argv(struct buf *out, const char *const *argv)
{
	struct json j = { .out = out };
	uintmax_t missing = 0;
	char mark[64];
	bool cut = false;

	json_open(&j, NULL, '[');
	for (; *argv; argv++) {
		size_t n = strlen(*argv), put = 0,
		       left = out->len < ARGV_SHOWN ? ARGV_SHOWN - out->len : 0;

		if (cut || (n <= left && put_word(&j, *argv, n, &put))) {
			missing += n - put;
			continue;
		}
		cut = true;
		/* One byte is up to six in JSON. */
		if (!put_word(&j, *argv, n < left / 2 ? n : left / 2, &put))
			(void)put_word(&j, *argv, n < left / 8 ? n : left / 8, &put);
		missing += n - put;
	}
	if (cut) {
		(void)snprintf(mark, sizeof(mark), "[%ju more bytes are not kept]",
			       missing);
		json_str(&j, NULL, mark);
	}
	json_close(&j, ']');
}

/* All but the row in the store. */
static int make_ready(struct starting *st, struct warren_error *err)
{
	AUTO_BUF struct buf argv = BUF_INIT(8 * ARGV_SHOWN);
	struct box *box = st->box;
	char user[32];
	struct exec_row row = {
		.number = box->last_number + 1,
		.cwd = st->start.cwd ? st->start.cwd : box->is.base.workdir,
		.user = st->start.user ? st->start.user : user,
		.pty = st->start.pty,
		.session = st->start.session,
		.started_at = service_time(),
		.timeout_ms = st->start.timeout_ms,
	};

	(void)snprintf(user, sizeof(user), "%u:%u", st->user.uid, st->user.gid);
	write_argv(&argv, st->start.argv);
	if (argv.failed)
		return error_errno(err, ENOMEM, "start '%s'", st->start.argv[0]);
	id_make(row.id);
	(void)memcpy(row.sandbox, box->row.id, sizeof(row.sandbox));
	row.argv = argv.data;
	row.journal = row.id;
	st->run = run_load(box, &row);
	if (!st->run)
		return error_errno(err, ENOMEM, "start '%s'", st->start.argv[0]);
	box->last_number++;
	st->run->started = st->begun;
	st->run->starting = true;
	if (lease_run(st, err) < 0 ||
	    journals_reserve(st->run, journal_capacity(st), err) < 0)
		return -err->code;
	return make_journal(st->run, err);
}

static int write_down(struct starting *st, struct warren_error *err)
{
	struct box *box = st->box;
	int r = db_insert_exec(box->service->db, &st->run->row, err);

	if (r == -EDQUOT)
		box->service->figures.denied++;
	if (r < 0)
		return r;
	st->written = true;
	box->n_kept++;
	return 0;
}

/* @gate is taken; -1: there is none. */
static int ask_init(struct starting *st, int gate, struct warren_error *err)
{
	CLEANUP(request_done) struct request q = REQUEST_INIT;
	struct run *run = st->run;
	const struct run_start *from = &st->start;
	struct warren_exec_spec spec = {
		.argv = from->argv,
		.env = from->env,
		.env_only = from->env_only,
		.cwd = from->cwd,
		.in = from->input && !from->pty ? WARREN_STDIO_PIPE : WARREN_STDIO_NULL,
		.out = WARREN_STDIO_JOURNAL,
		.err = from->pty ? WARREN_STDIO_NULL : WARREN_STDIO_JOURNAL,
		.pty = from->pty,
		.rows = from->rows,
		.cols = from->cols,
		.limits = from->limits,
		.timeout_ms = from->timeout_ms,
		.result_at = from->control ? SESSION_RESULT_FD : 0,
		.poke_at = from->control ? SESSION_COMMAND_FD : 0,
		.journal_limit = journal_capacity(st),
	};
	struct request_streams streams = REQUEST_STREAMS_INIT;
	int r;

	run->capacity = spec.journal_limit;
	streams.journal = run->journal;
	streams.notify = run->notify;
	streams.gate = gate;
	streams.keep_input = true;
	streams.hold = from->hold && run_hold_first(run);
	r = request_spawn(&q, &st->box->is.base, &st->user, &spec, run->row.number,
			  &streams, err);
	if (streams.gate >= 0)
		(void)close(streams.gate);
	return r < 0 ? r : line_ask(st->box, &q, on_started, st, err);
}

/* Until init has answered it is not over; but who asked hears at once what became of the row. */
static int start_behind_gate(struct starting *st, struct warren_error *err)
{
	AUTO_CLOSE int ours = -1;
	int ends[2], r;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_errno(err, errno, "make a pipe");
	ours = ends[1];
	r = ask_init(st, ends[0], err);
	if (r < 0)
		return r;
	/* If nobody waits there any more, something else failed, and init will say what. */
	if (write_down(st, err) == 0)
		(void)!write(ours, "", 1);
	else
		refuse(st, err);
	return 0;
}

static void on_user(void *ctx, const struct talk_user *user,
		    const struct warren_error *failure)
{
	struct starting *st = ctx;
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	if (failure) {
		fail(st, failure);
		return;
	}
	st->user = *user;
	r = disk_admit(st->box->service, &err);
	if (r == 0)
		r = make_ready(st, &err);
	if (r == 0 && st->box->gates) {
		r = start_behind_gate(st, &err);
	} else if (r == 0) {
		r = write_down(st, &err);
		if (r == 0)
			r = ask_init(st, -1, &err);
	}
	if (r < 0)
		fail(st, &err);
}

static void on_usable(void *ctx, int r, const struct warren_error *err)
{
	struct starting *st = ctx;

	if (r < 0)
		fail(st, err);
	else
		box_find_user(st->box, st->start.user, on_user, st);
}

void run_start(struct box *box, const struct run_start *start, run_fn done, void *ctx)
{
	struct starting *st = calloc(1, sizeof(*st));
	struct warren_error err = WARREN_ERROR_INIT;

	if (!st || run_start_copy(&st->start, start) < 0) {
		free(st);
		(void)error_errno(&err, ENOMEM, "start '%s'", start->argv[0]);
		done(ctx, NULL, &err);
		return;
	}
	st->box = box;
	st->done = done;
	st->ctx = ctx;
	st->begun = clock_now();
	box_use(box, on_usable, st);
}

/* -------------------------------------------------------------------- ending */

/* By its own clock, so that whoever reads the result again says the same; but not yet to come. */
static int64_t end_of(const struct exec_row *row, const struct warren_result *result)
{
	uint64_t now = (uint64_t)service_time(), began = (uint64_t)row->started_at;
	uint64_t took = result->wall_usec / 1000;

	return (int64_t)(result->wall_usec && took < now - began ? began + took : now);
}

int run_record_end(const struct run *run, struct warren_error *err)
{
	AUTO_EVENT_TX struct event_tx tx = { 0 };
	struct service *s = run->service;
	int r = event_begin(s, &tx, err);

	if (r == 0)
		r = db_finish_exec(s->db, run->row.id, run->row.ended_at,
				   &run->row.result, err);
	if (r < 0)
		return r;
	/* Of one that was lost the end was told: it is known by its journal now, and told to who asks. */
	if (run->row.lost)
		return event_commit(&tx, err);
	event_emit(s, EVENT_EXEC_FINISHED, run->box, run->row.id, &run->row.result);
	if (run->row.result.oom)
		event_emit(s, EVENT_OOM, run->box, run->row.id, NULL);
	return event_commit(&tx, err);
}

void run_finish(struct run *run, const struct warren_result *result)
{
	struct box *box = run->box;

	if (run->row.ended)
		return;
	run->row.ended = true;
	run->row.ended_at = end_of(&run->row, result);
	run->row.result = *result;
	uncount(run);
	if (!run->row.session) {
		box->row.last_used = service_time();
		if (box->row.idle_timeout_ms)
			box_arm(box);
	}
	/* Whoever waits may let go of it. */
	(void)run_ref(run);
	while (run->waiters) {
		struct run_waiter *w = run->waiters;

		run_wait_cancel(w);
		w->fn(w, run);
	}
	/*
	 * Written down after it was told: the journal has it until then, and the next start
	 * would read it there. Nobody else is heard in between.
	 */
	run_save_result(run);
	feed_stop(run);
	if (run->input >= 0)
		(void)close(TAKE_FD(run->input));
	/* What it left behind may write on: who asks for the output is to hear of it. */
	if (!run_linger(run))
		run->refs--; /* the list's own, beside ours: it runs no more */
	(void)run_unref(run);
	journals_forget(box);
}

bool run_ended(struct box *box, const struct proto_exited *msg)
{
	struct warren_result result;

	for (struct run *run = box->runs; run; run = run->next) {
		/* What has not begun does not end, whatever an init says. */
		if (run->row.number == msg->exec && !run->row.ended && !run->starting) {
			result_fill(msg, &result);
			run_finish(run, &result);
			return true;
		}
	}
	return false;
}

/* Its sandbox is gone or lost: nobody will tell how it ended. */
void run_box_gone(struct box *box)
{
	struct run *next;

	for (struct run *run = box->runs; run; run = next) {
		bool owned = !run->row.ended && !run->lost;

		next = run->next;
		(void)run_ref(run);
		delist(run);
		run->lost = true; /* who wrote its output is gone, too */
		while (run->waiters) {
			struct run_waiter *w = run->waiters;

			run_wait_cancel(w);
			w->fn(w, run);
		}
		run_tell_watchers(run);
		feed_stop(run);
		run->box = NULL;
		if (owned || run->lingers)
			run->refs--; /* the list's own, beside ours */
		run->lingers = false;
		run_forget_unsaved(run);
		(void)run_unref(run);
	}
}

void run_wait(struct run *run, struct run_waiter *w)
{
	w->run = run_ref(run);
	w->next = run->waiters;
	run->waiters = w;
}

void run_wait_cancel(struct run_waiter *w)
{
	struct run *run = w->run;
	struct run_waiter **p;

	if (!run)
		return;
	for (p = &run->waiters; *p != w; p = &(*p)->next)
		;
	*p = w->next;
	w->run = NULL;
	(void)run_unref(run);
}
