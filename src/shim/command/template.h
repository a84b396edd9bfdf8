/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template.h - fill placeholders in an argv that an administrator wrote for a tool
 *
 *	["docker", "exec", "-i", "{tty}", "-u", "{user}", "{id}", "{argv}"]
 *
 * {name} in a word becomes a value. A word that is {argv} alone becomes the words of the
 * command. If a word is only a placeholder without a value, it is removed, together with
 * the word before it if that is an option ("-u"). Any other name in braces is an error,
 * so that a misspelt name does not reach the tool; "{{" stands for a brace. A value that
 * begins with '-' at the beginning of a word is also an error, so that data of a request
 * never becomes an option of the tool.
 */
#ifndef SHIM_COMMAND_TEMPLATE_H
#define SHIM_COMMAND_TEMPLATE_H

#include <jansson.h>

#include "base/error.h"

struct hole {
	const char *name;
	const char *value; /* NULL: there is none */
	bool option;       /* the administrator's own word, which may be an option */
	bool used;         /* the template uses it */
};

struct template_argv {
	char **words; /* NULL-terminated */
	size_t n, cap;
};

void template_done(struct template_argv *argv);

/* The values for a template. */
struct template_use {
	const char *name, *step; /* backend and step, for errors */
	struct hole *holes;
	size_t n_holes;
	const char *const *argv; /* for {argv}; NULL: the template must not use {argv} */
	bool used_argv;          /* the template uses {argv} */
};

/* Fill @list, the words of the configuration. */
int template_fill(const json_t *list, struct template_use *use, struct template_argv *ret,
		  struct warren_error *err);
/* Return whether the template uses this placeholder. */
bool template_has(const json_t *list, const char *hole);

#endif /* SHIM_COMMAND_TEMPLATE_H */
