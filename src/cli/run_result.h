/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_result.h - report the result of a run to users, scripts and programs
 *
 * With --json the report is written in three steps, when the data is available: the
 * result while the sandbox exists, the output after it is drained, then the end.
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

/* The exit status of `warren run` for @res. */
int result_status(const struct warren_result *res);
/* The exit status when warren_exec() failed with -@code. */
int result_exec_status(int code);

/* Print what is not enforced; with @verbose, also what is enforced, and how. */
void result_say_enforced(const char *command, const struct warren_enforcement *e,
			 size_t n, bool verbose);
/* With --verbose: print what is enforced, and how long each step of the creation took. */
void result_say_sandbox(const struct run_options *o, const struct warren_sandbox *sb,
			const struct warren_enforcement *e, size_t n);
/* Print which limits the command reached; with --verbose, also its resource usage. */
void result_say_end(const struct run_options *o, const struct warren_result *res);

void report_init(struct run_report *r);
void report_done(struct run_report *r);
/* Must be followed by report_enforced(), which adds the array `enforced`. */
void report_result(struct run_report *r, const char *id, const struct warren_result *res);
void report_enforced(struct run_report *r, const struct warren_enforcement *e, size_t n);
void report_output(struct run_report *r, const struct splice *out,
		   const struct splice *err);
void report_error(struct run_report *r, const struct warren_error *err, int status);
/*
 * Print the report as one line on stdout; return @status, or another status if printing
 * failed.
 */
int report_print(struct run_report *r, int status);

#endif /* CLI_RUN_RESULT_H */
