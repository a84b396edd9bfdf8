/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template.h - an argv with placeholders, which an administrator writes for a tool
 *
 *	["docker", "exec", "-i", "{tty}", "-u", "{user}", "{id}", "{argv}"]
 *
 * {name} in a word becomes a value. A word that is {argv} alone becomes the words of the
 * command. A word that is a hole alone, for which there is no value, is left out, and
 * with it the word before if that is an option ("-u"). Anything else in braces is an
 * error, so that a misspelt name does not reach the tool; "{{" is a brace. A value that
 * begins with '-' at the beginning of a word is an error, too: data of a request never
 * becomes an option of the tool.
 */
#ifndef SHIM_COMMAND_TEMPLATE_H
#define SHIM_COMMAND_TEMPLATE_H

#include <jansson.h>

#include "base/error.h"

struct hole {
	const char *name;
	const char *value; /* NULL: there is none */
	bool option;       /* it is the administrator's own word, and may be an option */
	bool used;         /* by the template */
};

struct template_argv {
	char **words; /* NULL-terminated */
	size_t n, cap;
};

void template_done(struct template_argv *argv);

/* What a template is filled with. */
struct template_use {
	const char *name, *step; /* of the backend, for errors */
	struct hole *holes;
	size_t n_holes;
	const char *const *argv; /* for {argv}; NULL: the template is to have none */
	bool used_argv;          /* it had one */
};

/* Fill @list, the words of the configuration. */
int template_fill(const json_t *list, struct template_use *use, struct template_argv *ret,
		  struct warren_error *err);
/* Does it have this hole? */
bool template_has(const json_t *list, const char *hole);

#endif /* SHIM_COMMAND_TEMPLATE_H */
