/* SPDX-License-Identifier: Apache-2.0 */
/*
 * warm.c - interpreters that are started before there is a program for them
 *
 * A warm run is a run without a program. Its sandbox is created like any other, and its
 * interpreter is started with a FIFO as its program. Then, before there is a client:
 *
 *	open the FIFO	for writing: succeeds when the interpreter has started, and
 *			lets it continue to its first read(2)
 *	unlink it	and create an empty file of the same name, for messages that show
 *			lines of the program
 *
 * A matching request takes the warm run, which then becomes an ordinary run: its program
 * is written to the file and then to the FIFO. So the program finds the same environment
 * as in an ordinary run: its file, arguments, environment and stdin, and a sandbox and an
 * interpreter that no other program has used.
 *
 * When a run ends, its recipe is kept, and the next warm run is created from it while no
 * client waits. A warm run that is not used is deleted after WARM_IDLE_MS.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/strv.h"
#include "proto/warden_proto.h"
#include "service/code/internal.h"

#define WARM_FILL_MS    2  /* time after an answer, so that the answer is sent first */
#define WARM_LOOK_MS    5  /* time until a new interpreter is checked again */
#define WARM_TOTAL      32 /* maximum for all tenants together */
#define WARM_CODE_MAX   (64U << 10) /* maximum size of a program */
#define WARM_EXPIRES_MS (CODE_WARM_MS + 660000)

static struct code_warm *service_warm(const struct service *s)
{
	return s->modules[MODULE_CODE];
}

static bool warm_declares_coding(const struct code_file *program)
{
	size_t n = program->size < 512 ? program->size : 512;

	/* Python cannot read a program in an encoding other than UTF-8 from a FIFO, only
	 * from a file. */
	return n > 0 && memmem(program->data, n, "coding", 6);
}

/* Can the run be warm? It must consist of a program alone, in a language whose
 * interpreter can wait, on a backend with real FIFOs. */
static bool warm_fits(const struct code_plan *p, const struct code_sandbox *sandbox)
{
	return p->language->warm && !p->compile && p->n_files == 1 &&
	       strcmp(p->files[0].name, p->language->file) == 0 &&
	       p->files[0].size <= WARM_CODE_MAX &&
	       p->limits.timeout_ms <= WARM_TIME_MAX && strv_len(p->run) == 2 &&
	       !warm_declares_coding(&p->files[0]) &&
	       strcmp(sandbox->row->backend, WIRE_NATIVE) == 0 &&
	       sandbox->spec->n_mounts <= 2;
}

struct code_recipe *code_warm_recipe(struct service *s, const struct code_plan *p,
				     const struct code_sandbox *from)
{
	return service_warm(s)->each > 0 && warm_fits(p, from) ? code_recipe_new(p, from)
							       : NULL;
}

/* -------------------------------------------------------------- creation of warm runs */

/* The warm run failed, or was not used in time. */
static void warm_drop(struct code_run *run)
{
	struct code_warm *w = service_warm(run->service);

	if (LIST_REMOVE(w->runs, run))
		w->n--;
	(void)code_cancel(run);
}

static void warm_on_failed(void *ctx, const struct code_result *result UNUSED,
			   const struct warren_error *err UNUSED)
{
	warm_drop(ctx);
}

static void warm_on_time(void *ctx)
{
	struct code_run *run = ctx;

	if (run->warm) {
		warm_drop(run);
		return;
	}
	run->timed_out = true;
	if (run->exec)
		exec_signal(run->exec, SIGKILL, WARREN_WHOM_TREE, service_ignore, NULL);
}

void code_warm_drop_of(struct service *s, const char *owner)
{
	struct code_run *next;

	for (struct code_run *run = service_warm(s)->runs; run; run = next) {
		next = run->next;
		if (!owner || strcmp(run->recipe->owner, owner) == 0)
			warm_drop(run);
	}
}

/* Make a plan for a program that is not known yet. */
static int warm_plan(const struct code_recipe *r, struct code_plan *ret)
{
	AUTO_CODE_PLAN struct code_plan p = { .language = r->language,
					      .image = r->image,
					      .max_output = 1 };

	p.files = calloc(1, sizeof(*p.files));
	p.run = strv_copy(r->run);
	p.env = strv_copy(r->env);
	if (!p.files || !p.run || !p.env)
		return -ENOMEM;
	p.files[0].name = r->file;
	p.n_files = 1;
	*ret = p;
	p = (struct code_plan){ 0 };
	return 0;
}

static bool warm_is_full(const struct code_warm *w, const struct code_recipe *r)
{
	size_t same = 0;

	for (const struct code_run *i = w->runs; i; i = i->next)
		same += i->recipe->language == r->language &&
			strcmp(i->recipe->owner, r->owner) == 0;
	return same >= w->each || w->n >= WARM_TOTAL;
}

/*
 * Takes over @r. A failure does not affect other runs: the next run starts its own
 * interpreter.
 */
static void warm_create(struct service *s, struct code_recipe *r)
{
	const struct code_callbacks on = { .done = warm_on_failed };
	struct code_warm *w = service_warm(s);
	struct warren_error ignored = WARREN_ERROR_INIT;
	struct code_sandbox sandbox = code_recipe_sandbox(r);
	AUTO_CODE_PLAN struct code_plan plan = { 0 };
	struct code_run *run = NULL;

	r->row.created_at = r->row.last_used = service_time();
	r->row.expires_at = r->row.created_at + WARM_EXPIRES_MS;
	if (warm_is_full(w, r) || warm_plan(r, &plan) < 0 ||
	    code_create(s, &plan, &sandbox, &on, NULL, &run, &ignored) < 0) {
		(void)code_recipe_free(r);
		return;
	}
	run->ctx = run;
	run->recipe = r;
	run->tool = r->tool;
	run->warm = true;
	LIST_APPEND(w->runs, run);
	w->n++;
	if (loop_timer_new(s->loop, warm_on_time, run, &run->timer) < 0) {
		warm_drop(run);
		return;
	}
	loop_timer_set(run->timer, WARM_IDLE_MS);
	if (!warm_is_full(w, r))
		code_warm_next(s, code_recipe_new(&run->plan, &sandbox), r->tool);
}

static void warm_fill(void *ctx)
{
	struct service *s = ctx;
	struct code_warm *w = service_warm(s);
	struct code_recipe *r = LIST_POP(w->recipes);

	if (r)
		warm_create(s, r);
	if (w->recipes)
		loop_timer_set(w->timer, WARM_FILL_MS);
}

void code_warm_next(struct service *s, struct code_recipe *r, size_t tool)
{
	struct code_warm *w = service_warm(s);

	if (!r)
		return;
	r->tool = tool;
	LIST_APPEND(w->recipes, r);
	loop_timer_set(w->timer, WARM_FILL_MS);
}

/* ------------------------------------------------------------------ use of a warm run */

static void warm_begin(void *ctx)
{
	code_write_opened(ctx);
}

struct code_run *code_warm_take(struct service *s, struct code_plan *plan,
				const struct code_sandbox *sandbox,
				const struct code_callbacks *callbacks, void *ctx)
{
	struct code_warm *w = service_warm(s);
	struct code_run **at, *run;

	if (!w->runs || !warm_fits(plan, sandbox))
		return NULL;
	LIST_FIND(w->runs, at,
		  (*at)->fd >= 0 && code_recipe_matches((*at)->recipe, plan, sandbox));
	run = *at;
	if (!run)
		return NULL;
	*at = run->next;
	w->n--;
	run->warm = false;
	run->taken = true;
	code_set(run, plan, callbacks, ctx);
	run->begun = clock_now();
	loop_timer_set(run->timer, run->plan.limits.timeout_ms);
	run->begin = (struct loop_task){ .fn = warm_begin, .ctx = run };
	loop_defer(s->loop, &run->begin);
	return run;
}

/* ----------------------------------------------------- preparation of the interpreter */

static const char *warm_path(const struct code_run *run, char *out, size_t size)
{
	(void)snprintf(out, size, CODE_DIR "/%s", run->plan.files[0].name);
	return out;
}

/* From here on, the warm run can be used. */
static void warm_on_created(void *ctx, struct files_answer *a,
			    const struct warren_error *err)
{
	struct code_run *run = ctx;

	if (err)
		warm_drop(run);
	else
		run->fd = TAKE_FD(a->fd);
}

static void warm_on_unlinked(void *ctx, struct files_answer *a UNUSED,
			     const struct warren_error *err)
{
	struct code_run *run = ctx;
	char path[512];

	if (err)
		warm_drop(run);
	else
		files_open(run->files, -1, warm_path(run, path, sizeof(path)),
			   CODE_WRITE_FLAGS, 0644, warm_on_created, run);
}

static void warm_on_open(void *ctx, struct files_answer *a,
			 const struct warren_error *err)
{
	struct code_run *run = ctx;
	struct stat st;
	char path[512];

	if (!err)
		run->program = TAKE_FD(a->fd);
	if (err && (err->code == ENXIO || err->code == ENOENT)) {
		/* If the interpreter has ended, this is noticed elsewhere. */
		loop_timer_set(run->look, WARM_LOOK_MS);
	} else if (err || fstat(run->program, &st) < 0 || !S_ISFIFO(st.st_mode)) {
		warm_drop(run);
	} else {
		files_change_one(run->files,
				 (struct files_change){
					 .verb = PROTO_UNLINK, .dir = -1, .to = -1 },
				 warm_path(run, path, sizeof(path)), NULL,
				 warm_on_unlinked, run);
	}
}

static void warm_look(void *ctx)
{
	struct code_run *run = ctx;
	char path[512];

	files_open(run->files, -1, warm_path(run, path, sizeof(path)),
		   O_WRONLY | O_NOFOLLOW, 0, warm_on_open, run);
}

void code_warm_open(struct code_run *run)
{
	if (loop_timer_new(run->service->loop, warm_look, run, &run->look) < 0)
		warm_drop(run);
	else
		loop_timer_set(run->look, WARM_LOOK_MS);
}

/* ----------------------------------------------------------- writing to the FIFO */

static void warm_handed_over(struct code_run *run)
{
	run->watch = loop_watch_free(run->watch);
	(void)close(TAKE_FD(run->program));
	run->taken = false;
	run->step = CODE_RUNS;
	if (run->plan.input)
		exec_feed(run->exec, run->plan.input, run->plan.input_size, true,
			  service_ignore, NULL);
	else
		exec_close_input(run->exec, service_ignore, NULL);
	if (run->on.started)
		run->on.started(run->ctx);
	/* The output or the end of the interpreter may already have arrived. */
	loop_defer(run->service->loop, &run->turn);
}

static void warm_on_room(void *ctx, unsigned events UNUSED)
{
	struct code_run *run = ctx;
	const struct code_file *program = &run->plan.files[0];

	while (run->handed < program->size) {
		ssize_t n = write(run->program, (const char *)program->data + run->handed,
				  program->size - run->handed);

		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break; /* the interpreter ended, and its result contains the
				  reason */
		run->handed += (size_t)n;
	}
	warm_handed_over(run);
}

void code_warm_hand_over(struct code_run *run)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int r = loop_watch(run->service->loop, run->program, LOOP_WRITE, warm_on_room,
			   run, &run->watch);

	if (r < 0) {
		(void)error_errno(&err, -r, "run the program");
		code_fail(run, &err);
	}
}

/* The interpreter ended, or timed out, before it got its program. */
bool code_warm_ended(struct code_run *run)
{
	struct warren_error err = WARREN_ERROR_INIT;
	bool ended = exec_row(run->exec)->ended || exec_lost(run->exec);

	if (ended && run->warm) {
		(void)error_set(&err, ESTALE, "the interpreter ended");
		code_fail(run, &err);
	} else if (ended && run->taken && run->timed_out) {
		code_write_cancel(run);
		code_warm_cancel(run);
		run->files = files_end(run->files);
		run->taken = false;
		run->step = CODE_RUNS;
		return true;
	}
	return false;
}

/* ------------------------------------------------------------------- end of warm runs */

void code_warm_cancel(struct code_run *run)
{
	loop_task_cancel(&run->begin);
	run->timer = loop_timer_free(run->timer);
	run->look = loop_timer_free(run->look);
	run->watch = loop_watch_free(run->watch);
	if (run->program >= 0)
		(void)close(TAKE_FD(run->program));
}

static int code_warm_open_service(struct service *s, const struct service_options *o,
				  struct warren_error *err)
{
	struct code_warm *w = service_warm(s);
	int r = loop_timer_new(s->loop, warm_fill, s, &w->timer);

	w->each = o->code_warm;
	return r < 0 ? error_errno(err, -r, "start the service") : 0;
}

/* The next process of the service deletes their sandboxes. */
static void code_warm_close(struct service *s)
{
	struct code_warm *w = service_warm(s);
	struct code_recipe *r;
	struct code_run *run;

	while ((run = LIST_POP(w->runs)))
		(void)code_abandon(run);
	while ((r = LIST_POP(w->recipes)))
		(void)code_recipe_free(r);
	w->timer = loop_timer_free(w->timer);
}

const struct service_module code_hooks = {
	.number = MODULE_CODE,
	.service_size = sizeof(struct code_warm),
	.open = code_warm_open_service,
	.close = code_warm_close,
};
