/* SPDX-License-Identifier: Apache-2.0 */
/*
 * context.h - kernels of the code interpreter, which run in sandboxes
 *
 * A context is a kernel (src/code/kernel) with its variables. It is started with its
 * first cell. Cells run one after another; each belongs to a request, which gets its
 * events.
 *
 *	context.c		contexts, and the start and end of their kernels
 *	context_cell.c		cells, and their clients
 *	context_events.c	reads what a kernel writes
 *	context_store.c		the database, and kernels of an earlier process
 *
 * A context is in the database, with its kernel's exec, so it survives a restart of the
 * service. A kernel that may run although no context has it is killed by the next process
 * (enum context_state).
 */
#ifndef API_E2B_CONTEXT_H
#define API_E2B_CONTEXT_H

#include "api/e2b/internal.h"
#include "base/json_scan.h"
#include "code/kernel/kernel.h"
#include "db/context.h"
#include "net/loop.h"
#include "service/exec/exec.h"

#define CONTEXTS_MAX      32 /* of one sandbox, and a default one for each kernel */
#define CELLS_MAX         64 /* of one context: the one that runs, and those that wait */
#define CONTEXT_SHORT_MAX (64U << 10) /* longer lines are sent in several turns */

/* A line that a kernel writes. Only its beginning is stored if it is for no client. */
struct kernel_line {
	struct json_scan scan;
	size_t n; /* bytes so far */
	char head[128];
	struct buf text;
	bool stray;    /* it began before the cell that runs */
	bool refused;  /* the text is not stored: @why, or "" if no client needs it */
	char why[160]; /* an error for the client */
	bool complete; /* it is long, and is being sent */
	size_t sent;   /* bytes of a long line that were sent */
};

/* A cell that runs, or waits. */
struct cell {
	struct cell *next;
	struct e2b_context *context;
	struct call *call; /* NULL: its client has left, or was answered */
	uint64_t n;
	struct buf request; /* for the kernel; empty after it was sent */
	uint64_t kept;      /* bytes of events that are counted for the client's tenant */
	struct buf out;     /* events that are sent together: cell_flush() */
	bool begun;         /* the response has begun */
	bool torn;          /* a part of a line was sent */
	int64_t left_at;    /* by service_time(): it was interrupted; 0: it was not */
	struct loop_timer *timer;
};

struct e2b_context {
	struct e2b_context *next, **prev;
	unsigned refs; /* that of the list, and those of operations in progress */
	bool listed;   /* the list has its reference */
	struct e2b *e2b;
	char id[ID_LEN + 1], sandbox[ID_LEN + 1];
	const struct code_kernel *kernel;
	bool is_default; /* the context of its language for requests that name none */
	bool removed;    /* clients do not see it any more */
	char cwd[4096];
	enum context_state state; /* in the database, with the id of the exec */
	char exec_id[ID_LEN + 1];
	bool restored;     /* the kernel of an earlier process was not looked for yet */
	struct exec *exec; /* the kernel; NULL: it does not run */
	bool starting;     /* an operation in progress calls context_go_on() */
	unsigned killing;  /* the same: the end of an earlier kernel */
	bool retrying;     /* the same: the timer starts it again */
	struct loop_timer *retry;
	unsigned tries;
	unsigned tool;              /* which of the kernel's programs is tried */
	uint64_t n;                 /* number of the last cell */
	struct cell *first, **tail; /* the cell that runs, and those that wait */
	size_t n_cells;
	bool sent;  /* the first cell was sent to the kernel */
	bool fed;   /* the kernel has read it */
	bool heard; /* the kernel has begun it: events are its events */
	/* Reading the kernel's output. */
	struct waiter watcher, ended;
	struct exec_holder holder;
	struct journal_hint hint;
	struct loop_task turn;
	uint64_t at;
	struct kernel_line line;
	struct buf rest;   /* read, but behind a long line */
	struct buf reason; /* what the kernel said on its standard error */
	bool blocked;      /* the client of the cell must read first */
};

/* Find a context of the sandbox; NULL: there is none. */
struct e2b_context *context_find(struct e2b *e, const char *sandbox, const char *id);
struct e2b_context *context_default(struct e2b *e, const char *sandbox,
				    const struct code_kernel *kernel);
/*
 * Create a context; @cwd NULL: the default context of its language. NULL: too many, or
 * *@err says why.
 */
struct e2b_context *context_new(struct e2b *e, const struct sandbox *sandbox,
				const struct code_kernel *kernel, const char *cwd,
				struct warren_error *err);
/* A context without a row; NULL: out of memory. */
struct e2b_context *context_alloc(struct e2b *e, const char *sandbox,
				  const struct code_kernel *kernel);
struct e2b_context *context_ref(struct e2b_context *x);
void context_unref(struct e2b_context *x);
/* Release the reference of the list. */
void context_unlist(struct e2b_context *x);
/* End its kernel and its cells. */
void context_stop(struct e2b_context *x, const char *why);
/* End its kernel and the first cell; the next cell starts another kernel. */
void context_replace(struct e2b_context *x);
/*
 * Does the first cell, whose client has left, not end although others wait? Then end its
 * kernel and all cells.
 */
bool context_reclaim(struct e2b_context *x);
/* As context_stop(), and remove the context. */
void context_remove(struct e2b_context *x, const char *why);
/* Kill a kernel, and record that it is gone. */
void context_kill(struct e2b_context *x, struct exec *exec);
/* Use @exec as the kernel, and read its output from @at on. */
void context_use_kernel(struct e2b_context *x, struct exec *exec, uint64_t at);
/* The kernel has ended: its cell gets an error. */
void context_kernel_gone(struct e2b_context *x);
/* Send the next cell, if the kernel is free. */
void context_go_on(struct e2b_context *x);
/* The command line of the kernel; the first word may list several programs. */
bool context_argv(const struct e2b_context *x, char tool[64], const char *argv[16]);

/* context_cell.c */
/*
 * Run a cell for @c, which gets a stream of events. @env: variables, or NULL; @language:
 * for kernels of several languages; NULL: none.
 */
void context_run(struct e2b_context *x, struct call *c, json_t *env, const char *code,
		 const char *language);
/* Is there a client for events of the cell that runs? */
bool context_is_heard(const struct e2b_context *x);
/* Send a short line to the client of a cell, with cell_flush(); its end is added. */
void cell_send(struct cell *k, const char *line, size_t n);
void cell_flush(struct cell *k);
/* Send a part of a line at once. */
void cell_write(struct cell *k, const char *data, size_t n);
/* Send an error as an event. */
void cell_send_error(struct cell *k, const char *name, const char *why);
/* Send the last event. */
void cell_send_end(struct cell *k);
/* Count @n bytes of an event for the tenant; false: that is too much. */
bool cell_keep(struct cell *k, size_t n);
/* The first cell has ended: answer its client. */
void context_end_cell(struct e2b_context *x);
/* The first cell has failed: tell its client. */
void context_fail_cell(struct e2b_context *x, const char *name, const char *why);
/* The same, but the kernel still runs it: interrupt it, as if its client had left. */
void context_disown_cell(struct e2b_context *x, const char *name, const char *why);

/* context_events.c */
void context_on_turn(void *ctx);
/* Forget what was read. */
void context_drop_lines(struct e2b_context *x);

/* context_store.c */
/*
 * Record the state, and the id of the kernel's exec (""). A removed context without a
 * kernel is deleted.
 */
int context_save(struct e2b_context *x, enum context_state state, const char *exec,
		 struct warren_error *err);
/* The same, where a failure only means that the next process starts another kernel. */
void context_note(struct e2b_context *x, enum context_state state, const char *exec);
/* Forget contexts of sandboxes that are gone, from time to time. */
void context_watch(struct e2b *e);
/* Look for the kernel of an earlier process, if the sandbox runs. */
void context_settle(struct e2b_context *x);

#endif /* API_E2B_CONTEXT_H */
