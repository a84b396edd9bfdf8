/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox_job.h - jobs of a sandbox, one after the other: pause, resume, stop, start,
 * delete
 *
 * A job's begin() is called when those before it are over; it ends by sandbox_job_end().
 * A stop may take as long as its grace. What ends the sandbox, or its processes, sooner
 * does not wait for that: it cuts short the grace of each stop before it.
 */
#ifndef SERVICE_CORE_SANDBOX_JOB_H
#define SERVICE_CORE_SANDBOX_JOB_H

#include "service/core/room.h"

/* How many of a kind may wait: sandbox_ops.c. */
enum sandbox_job_kind {
	JOB_OURS,   /* without a request; there is one of each at most */
	JOB_CHANGE, /* pause, resume, stop, start, limits */
	JOB_USE,
	JOB_END, /* a deletion, or a kill: the others leave room for it */
	JOB_KIND_MAX,
};

struct sandbox_job {
	struct sandbox_job *next;
	struct sandbox *sandbox;
	enum sandbox_job_kind kind;
	void (*begin)(struct sandbox_job *job);
	enum sandbox_state to; /* of pause and resume */
	const char *why;       /* is told with it */
	bool idle;             /* of pause: not requested by a client */
	bool save;             /* of pause: by a checkpoint */
	/* The grace of each stop before it becomes as short as `grace_ms`. */
	bool hurries;
	uint64_t grace_ms; /* of stop: between SIGTERM and SIGKILL */
	/* Of stop: it is under way, and shall take no longer than that from now on. */
	void (*hurry)(struct sandbox_job *job, uint64_t grace_ms);
	struct warren_limits limits, old;
	struct warren_error lost; /* of an end: why */
	struct permit permit;     /* of the request that asked for it */
	bool waited;              /* it did not begin at once */
	service_done_fn done;
	void *ctx;
};

/* A copy of @job behind those that wait. -EAGAIN to its done(): too many of its kind do.
 */
void sandbox_job_add(struct sandbox *sandbox, struct sandbox_job job);
/* The job under way is over: its done() is called, and the next one begins. */
void sandbox_job_end(struct sandbox_job *job, int r, const struct warren_error *err);
/* -ESTALE: it is in no state for what was asked. */
int sandbox_wrong_state(const struct sandbox *sandbox, struct warren_error *err);

#endif /* SERVICE_CORE_SANDBOX_JOB_H */
