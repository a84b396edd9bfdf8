/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - the state of a code run, shared by the files in this folder */
#ifndef SERVICE_CODE_INTERNAL_H
#define SERVICE_CODE_INTERNAL_H

#include "service/code/recipe.h"
#include "service/core/module.h"
#include "service/exec/exec.h"
#include "service/files/file_writer.h"
#include "service/files/files.h"

/*
 * An operation in progress that cannot be cancelled. Its callback gets the ticket, which
 * contains no run if the run has ended by then.
 */
struct code_ticket {
	struct code_run *run;
};

/*
 * How long an interpreter waits for a program, and the maximum timeout of a program that
 * uses it. If the service ends in between, init kills the interpreter after the sum of
 * both.
 */
#define WARM_IDLE_MS  60000
#define WARM_TIME_MAX 60000
#define CODE_WARM_MS  (WARM_IDLE_MS + WARM_TIME_MAX)

/* State of the module: interpreters that wait for a program (warm.c). */
struct code_warm {
	unsigned each; /* maximum for each tenant and language; 0: none */
	struct code_run *runs;
	size_t n;
	struct code_recipe *recipes; /* recipes of the interpreters to start next */
	struct loop_timer *timer;
};

struct code_run {
	struct code_run *next; /* next in the list of warm runs */
	struct service *service;
	char id[ID_LEN + 1]; /* id of the sandbox */
	char owner[DB_NAME_MAX + 1];
	struct code_plan plan;
	struct code_callbacks on;
	void *ctx;
	struct code_result result;
	bool done; /* done() was called */
	struct fair_quota_lease memory;
	struct sandbox_waiter waiter;
	struct code_ticket *ticket;
	struct files *files;

	/* code.c: how to create the sandbox, while the run waits for free capacity */
	struct code_recipe *room;
	struct loop_timer *room_timer;
	uint64_t room_until; /* ns */

	/* write.c */
	size_t file;   /* index of the file that is being written */
	size_t offset; /* bytes of this file that are written */
	int fd;
	uint32_t stream;
	struct file_writer *writer;

	/* execute.c */
	bool brings; /* the next exec writes the program first */
	enum {
		CODE_COMPILES,
		CODE_RUNS,
		CODE_RUNS_ALONE, /* run without the compiler, which the image lacks */
	} step;
	size_t tool; /* index of the program to try, among those that the step names */
	struct exec *exec;
	struct waiter ended, watcher;
	struct exec_holder holder;
	struct loop_task turn;
	struct journal_hint hint;
	uint64_t cursor;
	char complaint[256]; /* the first output on stderr, if it is short */
	bool blocked;        /* output() has asked to wait */
	uint64_t begun;      /* time when the first step was started, in ns */

	/* warm.c */
	bool warm;      /* the interpreter waits for a program */
	bool taken;     /* the run has a program that is not yet written to the FIFO */
	bool timed_out; /* the timer of the run has killed the program */
	struct code_recipe *recipe; /* recipe for the next warm run; NULL: start none */
	struct loop_task begin;
	struct loop_timer *timer, *look;
	int program; /* the FIFO for the program; `fd` is its file once the run can be
			taken */
	struct loop_watch *watch;
	size_t handed; /* bytes of the program written to the FIFO */

	/* artifacts.c */
	struct walk *walk;
	struct loop_task read_turn;
	size_t artifact_bytes;
	size_t n_collected; /* artifacts that are complete */
};

/* code.c */
struct code_ticket *code_ticket_new(struct code_run *run);
/* Free the ticket and return its run. NULL: the run has ended. */
struct code_run *code_ticket_use(struct code_ticket *t);
/*
 * Get the run's sandbox for its next use (sandbox_use()). NULL: it no longer exists, and
 * the run has failed.
 */
struct sandbox *code_use_sandbox(struct code_run *run);
/* End the run with an error. */
void code_fail(struct code_run *run, const struct warren_error *err);
/*
 * Like code_fail(), after a failed request to the sandbox, which may have been deleted.
 */
void code_fail_used(struct code_run *run, const struct warren_error *err);
/* End the run after the program has ended and the result is complete. */
void code_finish(struct code_run *run);
/*
 * Count @more bytes against the tenant's quota. False: the quota is used up, and the run
 * has failed.
 */
bool code_lease(struct code_run *run, size_t more);

/*
 * The parts of code_begin(): create the sandbox, then give the run its plan and its
 * client. code_abandon() frees a run without deleting its sandbox.
 */
int code_create(struct service *s, struct code_plan *plan,
		const struct code_sandbox *sandbox,
		const struct code_callbacks *callbacks, void *ctx, struct code_run **ret,
		struct warren_error *err) MUST_CHECK;
void code_set(struct code_run *run, struct code_plan *plan,
	      const struct code_callbacks *callbacks, void *ctx);
struct code_run *code_abandon(struct code_run *run);

/* write.c: write all files, then call code_execute(). */
void code_write_fail(struct code_run *run, const struct warren_error *err);
void code_write(struct code_run *run);
/* Write the only file, which is already open. */
void code_write_opened(struct code_run *run);
#define CODE_WRITE_FLAGS (O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW)
void code_write_cancel(struct code_run *run);
/* execute.c: compile and run, then call code_collect(). */
void code_execute(struct code_run *run);
void code_execute_cancel(struct code_run *run);
/* artifacts.c: read the files that match, then call code_finish(). */
void code_collect(struct code_run *run);
void code_collect_cancel(struct code_run *run);

/* warm.c: get the recipe for the next warm run; NULL: start none. */
struct code_recipe *code_warm_recipe(struct service *s, const struct code_plan *p,
				     const struct code_sandbox *from);
/*
 * Create a warm run soon. Takes @r. @tool: index of the program, among those that the
 * step names.
 */
void code_warm_next(struct service *s, struct code_recipe *r, size_t tool);
/* Find a warm run for this plan and give it the plan. NULL: there is none. */
struct code_run *code_warm_take(struct service *s, struct code_plan *plan,
				const struct code_sandbox *sandbox,
				const struct code_callbacks *callbacks, void *ctx);
/* Prepare a started interpreter for a program. */
void code_warm_open(struct code_run *run);
/* Write the program to the FIFO, after all files are written. */
void code_warm_hand_over(struct code_run *run);
/*
 * Handle the possible end of the exec of a warm or taken run. True: this is the result of
 * the run.
 */
bool code_warm_ended(struct code_run *run);
void code_warm_cancel(struct code_run *run);

#endif /* SERVICE_CODE_INTERNAL_H */
