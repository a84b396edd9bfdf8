/* SPDX-License-Identifier: Apache-2.0 */
/* git_config.h - the text of git's configuration: a pure parser */
#ifndef WORK_GIT_CONFIG_H
#define WORK_GIT_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/macro.h"

struct git_config_entry {
	const char *section, *key; /* as written, so in any case */
	const char *subsection;    /* "": none */
	char *value;               /* "": none; may be changed */
};

typedef void git_config_each(void *arg, struct git_config_entry *e);

/*
 * Call @each for every entry. The text is read as git does; but where git refuses the
 * whole file, the rest is read nevertheless, because another git may not. 0 or -ENOMEM.
 */
int git_config_parse(const char *text, size_t n, git_config_each *each,
		     void *arg) MUST_CHECK;

/* Could git read the text, so that a file with any name may be its configuration? */
bool git_config_is(const char *text, size_t n);

/* The length of the mark of UTF-8 at the beginning of a text, which git skips; or 0. */
size_t git_config_mark(const char *text, size_t n);

#endif /* WORK_GIT_CONFIG_H */
