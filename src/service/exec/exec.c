/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.c - execs: start, write, signal, end
 *
 * An exec is a row in the database, a journal file and, while it runs or is in use, a
 * struct exec. The row and the file exist before a program is executed, so that every
 * running exec can be found again. If a start fails, both are removed before the client
 * gets the error.
 *
 * Writing the row takes a tenth of the time that init needs to start a process, so both
 * happen at the same time. The child of init waits at a gate until the row is written. If
 * the row cannot be written, or if this process dies, nothing is executed.
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
#include "base/list.h"
#include "base/strv.h"
#include "service/core/undo.h"
#include "service/exec/internal.h"
#include "shellproto/shellproto.h"

/* How often a start begins again after a hibernation. */
#define START_TRIES 16

/* -------------------------------------------------------------- references and copies */

/* Copy a row. All its strings are in one block of memory. */
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

struct exec *exec_load(struct sandbox *sandbox, const struct exec_row *row)
{
	struct exec *exec = calloc(1, sizeof(*exec));

	if (!exec)
		return NULL;
	if (row_copy_exec(&exec->row, row) < 0) {
		free(exec);
		return NULL;
	}
	exec->refs = 1;
	exec->service = sandbox->service;
	exec->sandbox = sandbox;
	exec->loop = sandbox->service->loop;
	exec->journal = exec->notify = exec->input = exec->wakeup = -1;
	exec->held_at = UINT64_MAX;
	LIST_PUSH(sandbox_execs(sandbox)->list, exec);
	exec->listed = true;
	exec->counted = !exec->row.ended && !exec->row.session;
	sandbox->n_running += exec->counted;
	return exec;
}

static void exec_uncount(struct exec *exec)
{
	exec->sandbox->n_running -= exec->counted;
	exec->counted = false;
}

static void exec_delist(struct exec *exec)
{
	if (!exec->listed || !exec->sandbox)
		return; /* an exec without a sandbox is in no list */
	exec_uncount(exec);
	(void)LIST_REMOVE(sandbox_execs(exec->sandbox)->list, exec);
	exec->listed = false;
}

struct exec *exec_ref(struct exec *exec)
{
	exec->refs++;
	return exec;
}

struct exec *exec_unref(struct exec *exec)
{
	if (!exec || --exec->refs > 0)
		return NULL;
	journals_settle(exec);
	exec_delist(exec);
	exec->watch = loop_watch_free(exec->watch);
	exec->hold_timer = loop_timer_free(exec->hold_timer);
	exec->first_timer = loop_timer_free(exec->first_timer);
	/* The file may already have been removed. */
	loop_close(exec->loop, exec->journal);
	for (size_t i = 0; i < 3; i++) {
		int fd = (const int[]){ exec->notify, exec->input, exec->wakeup }[i];

		if (fd >= 0)
			(void)close(fd);
	}
	lease_end(exec->service, LEASE_DESCRIPTORS, &exec->descriptors);
	lease_end(exec->service, LEASE_TERMINALS, &exec->terminal);
	exec_row_done(&exec->row);
	free(exec);
	return NULL;
}

const struct exec_row *exec_row(const struct exec *exec)
{
	return &exec->row;
}

struct sandbox *exec_sandbox(const struct exec *exec)
{
	return exec->sandbox;
}

/* An exec that has ended is released when no client uses it any more. */
struct exec *exec_of_sandbox(struct sandbox *sandbox, const char *id)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_EXEC_ROW struct exec_row row = { 0 };
	struct exec *exec;

	for (exec = sandbox_execs(sandbox)->list; exec; exec = exec->next)
		if (strcmp(exec->row.id, id) == 0)
			return exec_ref(exec);
	if (db_get_exec(sandbox->service->db, sandbox->row.id, id, &row, &err) < 0)
		return NULL;
	exec = exec_load(sandbox, &row);
	/*
	 * A running exec in the list has a reference; an ended one exists only while it
	 * is used.
	 */
	if (exec && !exec->row.ended) {
		(void)exec_ref(exec); /* reference of the list */
		if (exec_finish_by_journal(exec))
			return exec;
		exec->refs--;
		exec->lost = true;
		exec_uncount(exec);
	}
	return exec;
}

/* ------------------------------------------------------------------ journals */

int service_spool(struct service *s)
{
	int fd = openat(s->journals, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd;
}

int exec_open_journal(struct exec *exec, struct warren_error *err)
{
	if (exec->journal >= 0)
		return 0;
	exec->journal = openat(exec->sandbox ? exec->sandbox->service->journals : -1,
			       exec->row.journal ? exec->row.journal : "",
			       O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	return exec->journal < 0 ? error_errno(err, errno, "open the exec's output") : 0;
}

/* ------------------------------------------------------------------ start of an exec */

struct starting {
	struct service *service;
	struct sandbox *sandbox;
	char id[ID_LEN + 1]; /* of the sandbox */
	struct exec *exec;
	/*
	 * A copy of the request, because the start may have to wait until the sandbox is
	 * resumed or its passwd file is read.
	 */
	struct exec_start start;
	struct fair_quota_lease memory; /* memory of that copy */
	struct initclient_user user;
	bool written;  /* the row is in the database */
	bool brief;    /* counted in sandbox->n_brief */
	uint32_t undo; /* the number of the copy that was made for the exec; 0: none */
	unsigned tries;
	exec_fn done; /* NULL: the client has received its answer */
	void *ctx;
	uint64_t begun;
};

static void *exec_copy_content(const struct exec_start *from)
{
	void *copy = malloc(from->content_size + 1);

	if (copy && from->content_size > 0)
		(void)memcpy(copy, from->content, from->content_size);
	return copy;
}

int exec_start_copy(struct exec_start *to, const struct exec_start *from)
{
	*to = *from;
	to->argv = (const char *const *)strv_copy(from->argv);
	to->env = (const char *const *)strv_copy(from->env);
	to->cwd = from->cwd ? strdup(from->cwd) : NULL;
	to->user = from->user ? strdup(from->user) : NULL;
	to->file = from->file ? strdup(from->file) : NULL;
	to->content = from->file ? exec_copy_content(from) : NULL;
	if (to->argv && to->env && !to->cwd == !from->cwd && !to->user == !from->user &&
	    !to->file == !from->file && !to->content == !from->file)
		return 0;
	exec_start_done(to);
	return -ENOMEM;
}

void exec_start_done(struct exec_start *s)
{
	(void)strv_free((char **)(uintptr_t)s->argv);
	(void)strv_free((char **)(uintptr_t)s->env);
	free((void *)(uintptr_t)s->cwd);
	free((void *)(uintptr_t)s->user);
	free((void *)(uintptr_t)s->file);
	free((void *)(uintptr_t)s->content);
	*s = (struct exec_start){ 0 };
}

static void starting_end_brief(struct starting *st)
{
	if (st->brief)
		sandbox_end_brief(st->sandbox);
	st->brief = false;
}

static void starting_free(struct starting *st)
{
	starting_end_brief(st);
	lease_end(st->service, LEASE_MEMORY, &st->memory);
	exec_start_done(&st->start);
	free(st);
}

static void exec_forget_main(struct sandbox *sandbox)
{
	struct warren_error ignored = WARREN_ERROR_INIT;

	survive(sandbox->service,
		db_set_main(sandbox->service->db, sandbox->row.id, NULL, &ignored));
	sandbox->row.main_exec[0] = '\0';
}

/* The exec could not be started: remove its row and its journal. */
static void exec_refuse(struct starting *st, const struct warren_error *err)
{
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct exec *exec = TAKE_PTR(st->exec);
	exec_fn done = TAKE_PTR(st->done);

	if (exec) {
		exec_hold_first_end(exec);
		if (exec->sandbox && st->written) {
			survive(exec->sandbox->service,
				db_delete_exec(exec->sandbox->service->db, exec->row.id,
					       &ignored));
			sandbox_execs(exec->sandbox)->n_kept--;
			if (st->start.main)
				exec_forget_main(exec->sandbox);
		}
		if (exec->sandbox)
			exec_remove_journal(exec->sandbox->service, exec->row.journal);
		journals_drop(exec);
		(void)exec_unref(exec);
	}
	done(st->ctx, NULL, err);
}

static void exec_fail(struct starting *st, const struct warren_error *err)
{
	/* The sandbox may be gone if the start was to begin again. */
	undo_not_started(sandbox_find(st->service, NULL, st->id), st->undo);
	if (st->done)
		exec_refuse(st, err);
	starting_free(st);
}

/* Make the pipe non-blocking: a pipe whose reader does not read must not stop the
 * loop. */
static int take_stream(struct init_reply *a, uint32_t bit)
{
	int fd = init_reply_take(a, bit);
	int flags = fd >= 0 ? fcntl(fd, F_GETFL) : -1;

	if (flags >= 0 && !(flags & O_NONBLOCK))
		(void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	return fd;
}

void exec_take_streams(struct exec *exec, struct init_reply *a)
{
	/* Streams of an earlier connection are equivalent, and may be in use, so keep
	 * them. */
	if (exec->input < 0 && !exec->input_ended)
		exec->input = take_stream(a, PROTO_GIVES_INPUT);
	if (exec->wakeup < 0)
		exec->wakeup = take_stream(a, PROTO_GIVES_WAKEUP);
	if (a->m.reply.value > 0 && a->m.reply.value <= INT32_MAX)
		exec->pid = (int)a->m.reply.value;
	exec->attached = true;
}

static void exec_on_started(void *ctx, struct init_reply *a,
			    const struct warren_error *failure)
{
	struct starting *st = ctx;
	struct exec *exec = st->exec;
	struct warren_error err = WARREN_ERROR_INIT;
	struct warren_exec_spec spec = { .argv = st->start.argv, .cwd = st->start.cwd };

	if (failure || !st->done) {
		/* It is unknown whether the exec was started. */
		if (failure && exec && exec->sandbox)
			exec_disown(exec);
		exec_fail(st, failure);
		return;
	}
	if (a->m.h.type != PROTO_REPLY || reply_code(&a->m.reply) != 0) {
		if (a->m.h.type != PROTO_REPLY)
			(void)error_errno(&err, EPROTO, "start '%s'", st->start.argv[0]);
		else if (reply_code(&a->m.reply) == EAGAIN &&
			 a->m.reply.stage == PROTO_STAGE_REQUEST)
			(void)lease_deny(st->sandbox->service, LEASE_EXECS,
					 PROTO_EXECS_MAX, PROTO_EXECS_MAX, &err);
		else
			(void)reply_explain(a, &spec, st->sandbox->is.base.workdir, &err);
		/*
		 * The exec runs, but the service cannot control it: kill it, and report
		 * that it was not started.
		 */
		if (a->lost)
			exec_signal(exec, SIGKILL, PROTO_WHOM_TREE, service_ignore, NULL);
		exec_fail(st, &err);
		return;
	}
	exec_take_streams(exec, a);
	exec->starting = false;
	exec->undo = st->undo;
	undo_started(st->sandbox, st->undo);
	figure_add(st->sandbox->service, FIGURE_EXEC, (clock_now() - st->begun) / 1000);
	st->sandbox->service->metrics.execs++;
	event_emit(st->sandbox->service, EVENT_EXEC_STARTED, st->sandbox, exec->row.id,
		   NULL);
	st->done(st->ctx, exec, NULL);
	starting_free(st);
}

static int make_journal(struct exec *exec, struct warren_error *err)
{
	int fd = journal_pool_take(exec->sandbox->service, exec->row.journal);

	if (fd < 0)
		return error_errno(err, -fd, "create a file for the output");
	exec->journal = fd;
	exec->notify = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return exec->notify < 0 ? error_errno(err, errno, "create an eventfd") : 0;
}

/* Reserve a journal, an eventfd, and the descriptors that init sends. */
static int lease_run(struct starting *st, struct warren_error *err)
{
	const struct exec_start *from = &st->start;
	uint64_t n = 2 + (from->input || from->pty) + (from->control ? 1 : 0);

	int r = lease_take(st->sandbox->service, LEASE_DESCRIPTORS,
			   st->sandbox->row.owner, n, &st->exec->descriptors, err);

	if (r < 0 || !from->pty)
		return r;
	return lease_take(st->sandbox->service, LEASE_TERMINALS, st->sandbox->row.owner,
			  1, &st->exec->terminal, err);
}

static uint64_t journal_capacity(const struct starting *st)
{
	uint64_t asked = st->start.journal ? st->start.journal
					   : exec_journal_default(st->sandbox->service);

	return asked < JOURNAL_CAPACITY_MIN ? JOURNAL_CAPACITY_MIN : asked;
}

/* Prepare everything except the row in the database. */
static int make_ready(struct starting *st, struct warren_error *err)
{
	AUTO_BUF struct buf argv = BUF_INIT(EXEC_ARGV_MAX);
	struct sandbox *sandbox = st->sandbox;
	char user[32];
	struct exec_row row = {
		.number = sandbox->last_number + 1,
		.cwd = st->start.cwd ? st->start.cwd : sandbox->is.base.workdir,
		.user = st->start.user ? st->start.user : user,
		.pty = st->start.pty,
		.session = st->start.session,
		.started_at = service_time(),
		.timeout_ms = st->start.timeout_ms,
	};

	(void)snprintf(user, sizeof(user), "%u:%u", st->user.uid, st->user.gid);
	exec_write_argv(&argv, st->start.argv);
	if (argv.failed)
		return error_errno(err, ENOMEM, "start '%s'", st->start.argv[0]);
	id_make(row.id);
	(void)memcpy(row.sandbox, sandbox->row.id, sizeof(row.sandbox));
	row.argv = argv.data;
	row.journal = row.id;
	st->exec = exec_load(sandbox, &row);
	if (!st->exec)
		return error_errno(err, ENOMEM, "start '%s'", st->start.argv[0]);
	sandbox->last_number++;
	st->exec->started = st->begun;
	st->exec->starting = true;
	if (lease_run(st, err) < 0 ||
	    journals_reserve(st->exec, journal_capacity(st), err) < 0)
		return -err->code;
	return make_journal(st->exec, err);
}

/*
 * Write the row of the exec and, for a main command, the exec's id in the sandbox's row,
 * in one transaction.
 */
static int exec_insert_row(struct starting *st, struct warren_error *err)
{
	AUTO_DB_TX struct db_tx tx = { 0 };
	struct sandbox *sandbox = st->sandbox;
	struct db *db = sandbox->service->db;
	int r;

	if (!st->start.main)
		return db_insert_exec(db, &st->exec->row, err);
	r = db_begin(db, DB_CRASH_SAFE, &tx, err);
	if (r == 0)
		r = db_insert_exec(db, &st->exec->row, err);
	if (r == 0)
		r = db_set_main(db, sandbox->row.id, st->exec->row.id, err);
	if (r == 0)
		r = db_commit(&tx, err);
	if (r == 0)
		(void)strcpy(sandbox->row.main_exec, st->exec->row.id);
	return r;
}

static int exec_write_down(struct starting *st, struct warren_error *err)
{
	struct sandbox *sandbox = st->sandbox;
	int r = exec_insert_row(st, err);

	if (r == -EDQUOT)
		sandbox->service->metrics.denied++;
	if (r < 0)
		return r;
	st->written = true;
	sandbox_execs(sandbox)->n_kept++;
	return 0;
}

/* Takes over @gate; -1: there is none. */
static int ask_init(struct starting *st, int gate, struct warren_error *err)
{
	CLEANUP(init_request_done) struct init_request q = REQUEST_INIT;
	struct exec *exec = st->exec;
	const struct exec_start *from = &st->start;
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
		.child_result_fd = from->control ? SHELLPROTO_RESULT_FD : 0,
		.child_wakeup_fd = from->control ? SHELLPROTO_COMMAND_FD : 0,
		.journal_limit = journal_capacity(st),
	};
	struct init_request_streams streams = REQUEST_STREAMS_INIT;
	struct init_request_base base = st->sandbox->is.base;
	int r;

	base.added_env = st->sandbox->added_env;
	base.account = from->account ? st->user.name : NULL;
	exec->capacity = spec.journal_limit;
	streams.journal = exec->journal;
	streams.notify = exec->notify;
	streams.gate = gate;
	streams.keep_input = true;
	streams.hold = from->hold && exec_hold_first(exec);
	streams.file = from->file;
	streams.content = from->content;
	streams.content_size = from->content_size;
	r = init_request_spawn(&q, &base, &st->user, &spec, exec->row.number, &streams,
			       err);
	if (streams.gate >= 0)
		(void)close(streams.gate);
	return r < 0 ? r : init_conn_ask(st->sandbox, &q, exec_on_started, st, err);
}

/*
 * The start ends when init has answered. If the row could not be written, the client gets
 * the error immediately.
 */
static int start_behind_gate(struct starting *st, struct warren_error *err)
{
	AUTO_CLOSE int ours = -1;
	int ends[2], r;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_errno(err, errno, "create a pipe");
	ours = ends[1];
	r = ask_init(st, ends[0], err);
	if (r < 0)
		return r;
	/*
	 * If the gate has no reader any more, the start failed for another reason, which
	 * init will report.
	 */
	if (exec_write_down(st, err) == 0)
		(void)!write(ours, "", 1);
	else
		exec_refuse(st, err);
	return 0;
}

static bool exec_is_stopped(const struct sandbox *sandbox)
{
	return sandbox_stop_has_begun(sandbox) ||
	       sandbox_state_is_stopped(sandbox->row.state) ||
	       sandbox_state_sleeps(sandbox->row.state);
}

static void exec_on_usable(void *ctx, int r, const struct warren_error *err);

/*
 * Nothing was started before a hibernation that did not wait any longer: wake the
 * sandbox, and begin again.
 */
static bool exec_start_again(struct starting *st)
{
	struct sandbox *sandbox = st->sandbox;

	if (!exec_is_stopped(sandbox) ||
	    (!sandbox->hibernating && !sandbox_state_sleeps(sandbox->row.state)) ||
	    st->tries++ == START_TRIES)
		return false;
	starting_end_brief(st);
	undo_use(sandbox, st->start.undoable, exec_on_usable, st);
	return true;
}

static void exec_on_user(void *ctx, const struct initclient_user *user,
			 const struct warren_error *failure)
{
	struct starting *st = ctx;
	struct warren_error err = WARREN_ERROR_INIT;
	int r;

	if (exec_start_again(st))
		return;
	if (failure) {
		exec_fail(st, failure);
		return;
	}
	st->user = *user;
	/* The sandbox was stopped in the meantime. */
	r = exec_is_stopped(st->sandbox)
		    ? error_set(&err, ESTALE, "the sandbox is stopped: start it first")
		    : disk_admit(st->sandbox->service, &err);
	if (r == 0)
		r = make_ready(st, &err);
	if (r == 0 && st->sandbox->gates) {
		r = start_behind_gate(st, &err);
	} else if (r == 0) {
		r = exec_write_down(st, &err);
		if (r == 0)
			r = ask_init(st, -1, &err);
	}
	if (r < 0)
		exec_fail(st, &err);
}

static void exec_on_usable(void *ctx, int r, const struct warren_error *err)
{
	struct starting *st = ctx;

	if (r < 0) {
		exec_fail(st, err);
		return;
	}
	sandbox_begin_brief(st->sandbox);
	st->brief = true;
	/* An earlier copy is that of a start that a hibernation has prevented. */
	undo_not_started(st->sandbox, st->undo);
	st->undo = (uint32_t)r;
	exec_account_find(st->sandbox, &st->start, exec_on_user, st);
}

bool exec_brings_file(const struct sandbox *sandbox)
{
	return sandbox->exec_files;
}

void exec_start(struct sandbox *sandbox, const struct exec_start *start, exec_fn done,
		void *ctx)
{
	struct starting *st = calloc(1, sizeof(*st));
	struct warren_error err = WARREN_ERROR_INIT;

	if (!st || exec_start_copy(&st->start, start) < 0) {
		free(st);
		(void)error_errno(&err, ENOMEM, "start '%s'", start->argv[0]);
		done(ctx, NULL, &err);
		return;
	}
	st->service = sandbox->service;
	st->sandbox = sandbox;
	(void)memcpy(st->id, sandbox->row.id, sizeof(st->id));
	st->done = done;
	st->ctx = ctx;
	st->begun = clock_now();
	/* The copy remains after the client has disconnected, so charge its memory. */
	if (lease_memory(st->service, sandbox->row.owner,
			 strv_bytes(st->start.argv) + strv_bytes(st->start.env) +
				 start->content_size,
			 &st->memory, &err) < 0) {
		exec_fail(st, &err);
		return;
	}
	undo_use(sandbox, start->undoable, exec_on_usable, st);
}

/* -------------------------------------------------------------------- end of an exec */

/* Call each waiter once. The caller has a reference. */
static void exec_tell_waiters(struct exec *exec)
{
	struct waiter *w;

	while ((w = exec->waiters.first)) {
		exec_wait_cancel(w);
		w->fn(w, exec);
	}
}

/*
 * Use the time of init's clock, so that every reader of the result gets the same time,
 * but not a time in the future.
 */
static int64_t end_of(const struct exec_row *row, const struct warren_result *result)
{
	uint64_t now = (uint64_t)service_time(), began = (uint64_t)row->started_at;
	uint64_t took = result->wall_usec / 1000;

	return (int64_t)(result->wall_usec && took < now - began ? began + took : now);
}

int exec_record_end(const struct exec *exec, struct warren_error *err)
{
	AUTO_EVENT_TX struct event_tx tx = { 0 };
	struct service *s = exec->service;
	int r = event_begin(s, &tx, err);

	if (r == 0)
		r = db_finish_exec(s->db, exec->row.id, exec->row.ended_at,
				   &exec->row.result, err);
	if (r == 0 && exec->row.ended_by != EXEC_BY_ITSELF)
		r = db_set_ended_by(s->db, exec->row.id, exec->row.ended_by, err);
	if (r < 0)
		return r;
	/*
	 * The end of a lost exec was already reported. Now the journal contains the
	 * result, for later requests.
	 */
	if (exec->row.lost)
		return event_commit(&tx, err);
	event_emit(s, EVENT_EXEC_FINISHED, exec->sandbox, exec->row.id,
		   &exec->row.result);
	if (exec->row.result.oom)
		event_emit(s, EVENT_OOM, exec->sandbox, exec->row.id, NULL);
	return event_commit(&tx, err);
}

void exec_finish(struct exec *exec, const struct warren_result *result)
{
	struct sandbox *sandbox = exec->sandbox;

	if (exec->row.ended)
		return;
	exec->row.ended = true;
	exec->row.ended_at = end_of(&exec->row, result);
	exec->row.result = *result;
	exec->row.ended_by = sandbox_stop_ended_by(exec);
	exec_note_away(exec);
	undo_ended(sandbox, exec->undo);
	exec_uncount(exec);
	if (!exec->row.session) {
		sandbox->row.last_used = service_time();
		if (sandbox->row.idle_timeout_ms)
			sandbox_arm(sandbox);
	}
	/* A waiter may release the exec, so take a reference. */
	(void)exec_ref(exec);
	exec_tell_waiters(exec);
	/*
	 * Save the result after reporting it. If the service is killed before that, the
	 * next start reads the result from the journal. No other client is served in
	 * between.
	 */
	exec_save_result(exec);
	feed_stop(exec);
	if (exec->input >= 0)
		(void)close(TAKE_FD(exec->input));
	/*
	 * Processes that the exec left may still write, and clients that read its output
	 * must be notified.
	 */
	if (!exec_linger(exec))
		exec->refs--; /* reference of the list: the exec no longer runs */
	main_command_look(sandbox, exec->row.id);
	sandbox_stop_look(sandbox);
	(void)exec_unref(exec);
	journals_forget(sandbox);
}

bool exec_ended(struct sandbox *sandbox, const struct proto_exited *msg)
{
	struct warren_result result;

	for (struct exec *exec = sandbox_execs(sandbox)->list; exec; exec = exec->next) {
		/* An exec that has not started cannot end, whatever init reports. */
		if (exec->row.number == msg->exec && !exec->row.ended &&
		    !exec->starting) {
			result_fill(msg, &result);
			exec->output_waits = msg->flags & PROTO_EXITED_FULL;
			exec_finish(exec, &result);
			return true;
		}
	}
	return false;
}

/* The sandbox is gone or lost, so the results of its execs will never be known. */
void exec_sandbox_gone(struct sandbox *sandbox)
{
	struct exec *next;

	for (struct exec *exec = sandbox_execs(sandbox)->list; exec; exec = next) {
		bool owned = !exec->row.ended && !exec->lost;

		next = exec->next;
		(void)exec_ref(exec);
		exec_delist(exec);
		exec->lost = true; /* the process that writes the output is gone too */
		exec_tell_waiters(exec);
		exec_tell_watchers(exec);
		feed_stop(exec);
		/* A sandbox that hibernates has its output still, but not its execs. */
		journals_settle(exec);
		exec->sandbox = NULL;
		if (owned || exec->lingers)
			exec->refs--; /* reference of the list */
		exec->lingers = false;
		exec_forget_unsaved(exec);
		(void)exec_unref(exec);
	}
}

void exec_wait(struct exec *exec, struct waiter *w)
{
	waiter_add(&exec->waiters, w, exec_ref(exec));
}

void exec_wait_cancel(struct waiter *w)
{
	(void)exec_unref(waiter_cancel(w));
}
