/* SPDX-License-Identifier: Apache-2.0 */
/*
 * context.h - kernels of the code interpreter, which run in sandboxes
 *
 * A context is a kernel (src/code/kernel) with its variables. It is started with its
 * first cell. Cells run one after another; each belongs to a request, which gets its
 * events.
 */
#ifndef API_E2B_CONTEXT_H
#define API_E2B_CONTEXT_H

#include "api/e2b/internal.h"
#include "code/kernel/kernel.h"
#include "net/loop.h"
#include "service/exec/exec.h"

#define CONTEXTS_MAX 32 /* of one sandbox */

struct cell;

struct e2b_context {
	struct e2b_context *next, **prev;
	struct e2b *e2b;
	char id[ID_LEN + 1], sandbox[ID_LEN + 1];
	const struct code_kernel *kernel;
	bool is_default; /* the context of its language for requests that name none */
	char cwd[4096];
	struct exec *exec; /* the kernel; NULL: not started */
	bool starting;
	bool removed;               /* only the start in progress still knows it */
	unsigned tool;              /* which of the kernel's programs is tried */
	uint64_t n;                 /* number of the last cell */
	struct cell *first, **tail; /* the cell that runs, and those that wait */
	bool sent;                  /* the first cell was sent to the kernel */
	/* Reading the kernel's output. */
	struct waiter watcher, ended;
	struct exec_holder holder;
	struct journal_hint hint;
	struct loop_task turn;
	uint64_t at;
	struct buf line;   /* the beginning of an event */
	struct buf reason; /* what the kernel said on its standard error */
	bool blocked;      /* the client of the cell must read first */
};

/* A cell that runs, or waits. */
struct cell {
	struct cell *next;
	struct e2b_context *context;
	struct call *call; /* NULL: its client has left */
	json_t *request;   /* for the kernel, without its number */
	uint64_t n;
	bool begun; /* the response has begun */
	struct loop_timer *timer;
};

/* Find a context of the sandbox; NULL: there is none. */
struct e2b_context *context_find(struct e2b *e, const char *sandbox, const char *id);
struct e2b_context *context_default(struct e2b *e, const char *sandbox,
				    const struct code_kernel *kernel);
/* Create a context; NULL: out of memory, or too many. */
struct e2b_context *context_new(struct e2b *e, const char *sandbox,
				const struct code_kernel *kernel, const char *cwd);
/* End its kernel and its cells. */
void context_stop(struct e2b_context *x, const char *why);
void context_free(struct e2b_context *x);
/* Run a cell for @c, which gets a stream of events. Takes @request. */
void context_run(struct e2b_context *x, struct call *c, json_t *request);
size_t context_count(const struct e2b *e, const char *sandbox);

#endif /* API_E2B_CONTEXT_H */
