/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_result.h - the result of a run, for people, scripts and programs
 *
 * With --json the report is written in three steps, as the facts come and go:
 * what ran while there is a sandbox, its output once it was drained, the end.
 */
#ifndef CLI_RUN_RESULT_H
#define CLI_RUN_RESULT_H

#include "base/json.h"
#include "cli/run_options.h"
#include "cli/splice.h"

struct run_report {
	struct buf out;
	struct json json;
};

/* The exit status of ours that tells of @res. */
int result_status(const struct warren_result *res);
/* The exit status when warren_exec() failed with -@code. */
int result_exec_status(int code);

/* With --verbose: what is enforced, and how long each step of making it took. */
void result_say_sandbox(const struct run_options *o, const struct warren_sandbox *sb);
/* Limits that were hit; with --verbose also what it used. */
void result_say_end(const struct run_options *o, const struct warren_result *res);

void report_init(struct run_report *r);
void report_done(struct run_report *r);
/* What is enforced follows it, as the array `enforced`. */
void report_result(struct run_report *r, const char *id, const struct warren_result *res);
void report_enforced(struct run_report *r, const struct warren_sandbox *sb);
void report_output(struct run_report *r, const struct splice *out,
		   const struct splice *err);
void report_error(struct run_report *r, const struct warren_error *err, int status);
/* On stdout, as one line; returns @status, or another one when that failed. */
int report_print(struct run_report *r, int status);

#endif /* CLI_RUN_RESULT_H */
