/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template.h - an argv with holes: what an administrator says of a tool, filled for one use
 *
 *	["docker", "exec", "-i", "{tty}", "-u", "{user}", "{id}", "{argv}"]
 *
 * {name} in a word becomes a value. A word that is {argv} alone becomes the words of the
 * command. A word that is a hole alone, for which there is no value, is left out, and with
 * it the word before if that is an option ("-u"). Anything else in braces is an error, so that a
 * misspelt name does not reach the tool; "{{" is a brace.
 */
#ifndef COMMAND_TEMPLATE_H
#define COMMAND_TEMPLATE_H

#include <jansson.h>

#include "base/error.h"

struct hole {
	const char *name;
	const char *value; /* NULL: there is none */
	bool used;         /* by the template */
};

struct template_argv {
	char **words; /* NULL-terminated */
	size_t n, cap;
};

void template_done(struct template_argv *argv);

/*
 * Fill @list, the words of the configuration, for step @step of backend @name. @argv may be
 * NULL where the template is to have no {argv}; *@used_argv says whether it had.
 */
int template_fill(const json_t *list, const char *name, const char *step,
		  struct hole *holes, size_t n_holes, const char *const *argv,
		  bool *used_argv, struct template_argv *ret, struct warren_error *err);
/* Does it have this hole? */
bool template_has(const json_t *list, const char *hole);

#endif /* COMMAND_TEMPLATE_H */
