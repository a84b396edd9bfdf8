/* SPDX-License-Identifier: Apache-2.0 */
/*
 * e2b.h - the API of E2B's SDKs: its control plane, and the data plane of each sandbox
 *
 * The SDKs find this service by environment variables: E2B_API_URL and E2B_SANDBOX_URL
 * (plain HTTP, the header E2b-Sandbox-Id selects the sandbox), or E2B_DOMAIN (TLS, the
 * host name selects it). Nothing runs in the sandbox for it: requests of the data plane
 * become execs and file requests of the service.
 *
 *	e2b.c		the path of a request to its handler; who may do it
 *	table.c		the operations and their schemas
 *	errors.c	errors in the three forms that the SDKs expect
 *	fields.c	the names of fields in errors
 *	create.c	creates sandboxes
 *	sandbox.c	the other operations on sandboxes
 *	envelope.c	messages of streams
 *	process.c	commands
 *	process_table.c	commands by their pid
 *	process_stream.c	the events of a command, as they happen
 *	filesystem.c	names and attributes of files
 *	watch.c		changes of files
 *	file.c		contents of files
 *	volume.c	volumes and their tokens
 *	content.c	files of volumes
 *	interpreter.c	the code interpreter: its contexts and cells (context.h)
 */
#ifndef API_E2B_E2B_H
#define API_E2B_E2B_H

#include "base/error.h"
#include "net/http.h"

struct v1;
struct e2b_process;
struct e2b_watcher;
struct starting;
struct e2b_context;
struct loop_timer;

#define E2B_BUCKETS 256 /* of what belongs to a sandbox: e2b_bucket() */

/* The searches for the sandbox of a signature that an address has requested. */
struct e2b_search_budget {
	int64_t used, at;
};

struct e2b {
	struct v1 *v1;
	char key[65]; /* the access tokens of sandboxes are derived from it */
	struct e2b_process *processes[E2B_BUCKETS];
	struct e2b_watcher *watchers;
	struct starting *starting; /* sandboxes whose template is not ready yet */
	struct e2b_context *contexts[E2B_BUCKETS];
	struct loop_timer
		*context_timer;         /* forgets contexts of sandboxes that are gone */
	bool context_sweeps;            /* that timer is set */
	int64_t restored_at;            /* when sandboxes were restored */
	bool closing;                   /* contexts are left to the next process */
	struct loop_timer *timer;       /* forgets processes that ended */
	bool sweeps;                    /* that timer is set */
	struct loop_timer *watch_timer; /* forgets unused watchers */
	struct e2b_search_budget search_budgets[E2B_BUCKETS]; /* signature.c */
	struct e2b_search_budget search_total;                /* of all of them */
	size_t searches;                                      /* in progress */
};

int e2b_open(struct e2b *e, struct v1 *v1, struct warren_error *err) MUST_CHECK;
void e2b_close(struct e2b *e);
/* The sandboxes are restored: find the kernels of the code interpreter again. */
void e2b_restore(struct e2b *e);
/* Return whether the request is meant for this API. */
bool e2b_wants(const struct e2b *e, const struct http_request *req);
void e2b_request(struct http_request *req, struct e2b *e);
/*
 * If the server refuses a request to this API itself, replace the body, so that it has
 * the form that the client expects.
 */
void e2b_refused(struct http_refusal *refusal, struct buf *body, const struct e2b *e);

#endif /* API_E2B_E2B_H */
