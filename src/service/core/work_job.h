/* SPDX-License-Identifier: Apache-2.0 */
/*
 * work_job.h - a run of warren-work(1) for a client, as a child of the warden
 *
 * The works of this machine are files of the user who runs the service. The program reads
 * and changes them; the api only passes its answer on (cli/work/request.h).
 */
#ifndef SERVICE_CORE_WORK_JOB_H
#define SERVICE_CORE_WORK_JOB_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/warden_proto.h"
#include "service/core/service.h"

struct work_job_ops {
	/*
	 * The last callback of a job that failed; nothing was changed. @unopened: because
	 * the work cannot be used.
	 */
	void (*failed)(void *ctx, const struct warren_error *err, bool unopened);
	/* The answer begins. @conflict: nothing was accepted; the answer says why. */
	void (*begin)(void *ctx, bool conflict);
	/* A part of it; false: wait for work_job_continue(). The job may be cancelled. */
	bool (*data)(void *ctx, const char *data, size_t n);
	/* The last callback; without @whole, the end of the answer is missing. */
	void (*end)(void *ctx, bool whole);
};

struct work_job;

/*
 * Start the program with @msg, whose type is set. Its input is the @msg->input bytes at
 * @input, which stay valid until the last callback or work_job_cancel(). No callback is
 * called before this function has returned. -EAGAIN: too many are running.
 */
int work_job_start(struct service *s, struct warden_proto_work *msg, const char *input,
		   const struct work_job_ops *ops, void *ctx, struct work_job **ret,
		   struct warren_error *err) MUST_CHECK;
void work_job_continue(struct work_job *job);
/*
 * No callback is called from now on. A program that only reads ends; one that decides is
 * completed, if it has all of its input. Accepts NULL; returns NULL.
 */
struct work_job *work_job_cancel(struct work_job *job);

#endif /* SERVICE_CORE_WORK_JOB_H */
