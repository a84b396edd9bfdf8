/* SPDX-License-Identifier: Apache-2.0 */
/* work_options.h - the checked options of `warren work` */
#ifndef CLI_WORK_OPTIONS_H
#define CLI_WORK_OPTIONS_H

#include "cli/run_options.h"
#include "work/work.h"

struct work_cli_options {
	struct run_options run; /* the options that are also those of `warren run` */
	enum work_mode mode;
	char **hide; /* patterns, NULL-terminated; NULL: none */
	const char *resume, *remove;
	bool list, json;
	bool sync, no_sync, keep;
	bool no_setup, yes;
};

extern const struct opts work_opts;

/* The setter of --hide, whose field is a char **. */
int work_set_hide(void *field, const char *value, struct warren_error *err);

/* Check combinations of options. */
int work_options_check(struct work_cli_options *o, struct warren_error *err) MUST_CHECK;
void work_options_done(struct work_cli_options *o);

#endif /* CLI_WORK_OPTIONS_H */
