/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - the state of a run of code, for the files of this folder */
#ifndef SERVICE_CODE_INTERNAL_H
#define SERVICE_CODE_INTERNAL_H

#include "service/code/code.h"
#include "service/core/module.h"
#include "service/exec/exec.h"
#include "service/files/file_writer.h"
#include "service/files/files.h"

/*
 * Something under way that cannot be cancelled: its callback gets the ticket, and finds
 * no run in it if the run has ended in the meantime.
 */
struct code_ticket {
	struct code_run *run;
};

struct code_recipe;

/*
 * An interpreter waits so long, and a program may then ask for so much time. If the
 * service ends in between, init ends it after both.
 */
#define WARM_IDLE_MS  60000
#define WARM_TIME_MAX 60000
#define CODE_WARM_MS  (WARM_IDLE_MS + WARM_TIME_MAX)

/* The module's memory: interpreters that wait for a program, warm.c. */
struct code_warm {
	unsigned each; /* for each tenant and language, at most; 0: none */
	struct code_run *runs;
	size_t n;
	struct code_recipe *recipes; /* of those to be started next */
	struct loop_timer *timer;
};

struct code_run {
	struct code_run *next; /* of warm runs */
	struct service *service;
	char id[ID_LEN + 1]; /* of the sandbox */
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

	/* code.c: what its sandbox will be created from, while it waits for room */
	struct code_recipe *room;
	struct loop_timer *room_timer;
	uint64_t room_until; /* ns */

	/* write.c */
	size_t file;   /* the one that is being written */
	size_t offset; /* bytes of it that are written */
	int fd;
	uint32_t stream;
	struct file_writer *writer;

	/* execute.c */
	bool brings; /* the next exec writes the program first */
	enum {
		CODE_COMPILES,
		CODE_RUNS,
		CODE_RUNS_ALONE, /* without the compiler, which the image lacks */
	} step;
	size_t tool; /* which of the programs that the step names */
	struct exec *exec;
	struct waiter ended, watcher;
	struct exec_holder holder;
	struct loop_task turn;
	struct journal_hint hint;
	uint64_t cursor;
	char complaint[256]; /* the first piece of stderr, if it is short */
	bool blocked;        /* output() has asked to wait */
	uint64_t begun;      /* ns: when the first step was started */

	/* warm.c */
	bool warm;                  /* it waits for a program, */
	bool taken;                 /* or has one, which is not in the FIFO yet */
	bool timed_out;             /* its timer has killed it */
	struct code_recipe *recipe; /* for the next warm run; NULL: there shall be none */
	struct loop_task begin;
	struct loop_timer *timer, *look;
	int program; /* the FIFO; `fd` is the file, once the run can be taken */
	struct loop_watch *watch;
	size_t handed; /* bytes of the program that went through it */

	/* artifacts.c */
	struct walk *walk;
	struct loop_task read_turn;
	size_t artifact_bytes;
	size_t n_collected; /* artifacts that are whole */
};

/* code.c */
struct code_ticket *code_ticket_new(struct code_run *run);
/* The run of a ticket, which is freed; NULL: it has ended. */
struct code_run *code_ticket_use(struct code_ticket *t);
/* Its sandbox, for the next use of it (sandbox_use()); NULL: gone, and the run failed. */
struct sandbox *code_use_sandbox(struct code_run *run);
/* The run has failed. */
void code_fail(struct code_run *run, const struct warren_error *err);
/* The same for a request to its sandbox: that may have been deleted. */
void code_fail_used(struct code_run *run, const struct warren_error *err);
/* The program has ended, and everything is in the result. */
void code_finish(struct code_run *run);
/* Count @more bytes for the tenant; otherwise the run has failed. */
bool code_lease(struct code_run *run, size_t more);

/*
 * The parts of code_begin(): create the sandbox; give a run its plan and its client.
 * code_abandon() frees a run and lets its sandbox be.
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
/* The same for the file that is open, which is the only one. */
void code_write_opened(struct code_run *run);
#define CODE_WRITE_FLAGS (O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW)
void code_write_cancel(struct code_run *run);
/* execute.c: compile and run, then call code_collect(). */
void code_execute(struct code_run *run);
void code_execute_cancel(struct code_run *run);
/* artifacts.c: read the files that match, then call code_finish(). */
void code_collect(struct code_run *run);
void code_collect_cancel(struct code_run *run);

/* warm.c: how to create the next one, if there shall be one; NULL: none. */
struct code_recipe *code_warm_recipe(struct service *s, const struct code_plan *p,
				     const struct code_sandbox *from);
struct code_recipe *code_recipe_free(struct code_recipe *r);
/* Copy what a sandbox is created from. NULL: out of memory. */
struct code_recipe *code_recipe_new(const struct code_plan *p,
				    const struct code_sandbox *from);
/* With a new id; valid while @r is. */
struct code_sandbox code_recipe_sandbox(struct code_recipe *r);
/* Create a warm run soon. Takes @r. @tool: which of the programs that the step names. */
void code_warm_next(struct service *s, struct code_recipe *r, size_t tool);
/* A warm run for this plan, which it takes; NULL: there is none. */
struct code_run *code_warm_take(struct service *s, struct code_plan *plan,
				const struct code_sandbox *sandbox,
				const struct code_callbacks *callbacks, void *ctx);
/* The interpreter is started: prepare what a program needs. */
void code_warm_open(struct code_run *run);
/* All files are written: write the program to the FIFO. */
void code_warm_hand_over(struct code_run *run);
/* The exec of a run that is warm or taken may have ended. True: that is its result. */
bool code_warm_ended(struct code_run *run);
void code_warm_cancel(struct code_run *run);

#endif /* SERVICE_CODE_INTERNAL_H */
