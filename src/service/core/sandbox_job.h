/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sandbox_job.h - the jobs of a sandbox, one after another: pause, resume, stop, start,
 * delete
 *
 * The core calls a job's begin() when the jobs before it have ended; the job ends with
 * sandbox_job_end(). A stop may take as long as its grace period. A job that ends the
 * sandbox or its processes sooner cuts short the grace period of each stop before it.
 */
#ifndef SERVICE_CORE_SANDBOX_JOB_H
#define SERVICE_CORE_SANDBOX_JOB_H

#include "service/core/module.h"

/* The maximum number of waiting jobs depends on the kind: sandbox_job.c. */
enum sandbox_job_kind {
	/*
	 * Started by the service itself; not limited, because at most one of each sort
	 * waits.
	 */
	JOB_OURS,
	JOB_CHANGE, /* pause, resume, stop, start, limits */
	JOB_USE,
	JOB_END, /* deletion or kill; has its own maximum */
	JOB_KIND_MAX,
};

struct sandbox_job {
	struct sandbox_job *next;
	struct sandbox *sandbox;
	enum sandbox_job_kind kind;
	void (*begin)(struct sandbox_job *job);
	enum sandbox_state to; /* for pause, resume and sandbox_end_as(): the new state */
	const char *why;       /* reason, for the event */
	/* For pause and stop that no client requested: skipped if it is no longer due. */
	enum sandbox_cause cause;
	bool save; /* for pause: with a checkpoint */
	bool drop; /* for hibernation: without its files */
	/* This job shortens the grace period of the stops before it to `grace_ms`. */
	bool hurries;
	uint64_t grace_ms; /* for stop: time between SIGTERM and SIGKILL */
	/* Set by a stop in progress: shortens its grace period to @grace_ms from now. */
	void (*hurry)(struct sandbox_job *job, uint64_t grace_ms);
	/*
	 * Set by a job in progress: go back to the queue, if nothing has begun;
	 * otherwise, return false.
	 */
	bool (*step_back)(struct sandbox_job *job);
	/*
	 * It precedes all jobs that wait: it is part of a brief use that has begun, or
	 * opens the connection to init.
	 */
	bool follows;
	struct warren_limits limits, old;
	char *text;               /* for a change of the network: its policy; owned */
	struct warren_error lost; /* for sandbox_end(): the reason */
	struct permit permit;     /* permit of the client's request */
	bool waited;              /* the job had to wait before it began */
	service_done_fn done;
	void *ctx;
};

/* Queue a copy of @job, and take its text. Its done() gets -EAGAIN if too many jobs of
 * its kind wait. */
void sandbox_job_add(struct sandbox *sandbox, struct sandbox_job job);
/* The current job has ended: call its done(), and begin the next job. */
void sandbox_job_end(struct sandbox_job *job, int r, const struct warren_error *err);
/* hibernate.c: save the files of a stopped sandbox, and end it. */
void sandbox_save(struct sandbox *sandbox, const char *why, service_done_fn done,
		  void *ctx);
/*
 * Like sandbox_save(), but without its files: the sandbox starts from its image when it
 * wakes.
 */
void sandbox_drop_files(struct sandbox *sandbox, service_done_fn done, void *ctx);
/* begin() of a job that wakes a sandbox that hibernates. */
void sandbox_wake_begin(struct sandbox_job *job);
/* begin() of a job that pauses, resumes or checkpoints a sandbox. */
void sandbox_pause_begin(struct sandbox_job *job);
/*
 * sandbox_use.c: an earlier process was killed while it let the sandbox hibernate. Return
 * true if it is not known yet how that ended: begin() of @job is called again then.
 */
bool sandbox_await_init(struct sandbox_job *job);
/* Set the error -ESTALE: the sandbox's state does not allow the request. */
int sandbox_wrong_state(const struct sandbox *sandbox, struct warren_error *err);

#endif /* SERVICE_CORE_SANDBOX_JOB_H */
