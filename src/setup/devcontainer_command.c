/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devcontainer_command.c - commands of devcontainer.json as steps
 *
 * A command is a string for the shell, a list of words, or an object of commands, which
 * run at the same time. All become one text for /bin/sh.
 */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "setup/devcontainer.h"
#include "setup/steps.h"

#define COMMAND_MAX (256 << 10)
#define TITLE_MAX   80

/* Add one command, a string or a list of words; -EINVAL: it is neither. */
static int command_add(const struct devcontainer_vars *v, struct buf *out,
		       const json_t *value)
{
	const json_t *word;
	size_t i;

	if (json_is_string(value)) {
		AUTO_FREE char *text = devcontainer_expand(v, json_string_value(value));

		if (!text)
			return -ENOMEM;
		buf_puts(out, text);
		return 0;
	}
	if (!json_is_array(value))
		return -EINVAL;
	json_array_foreach(value, i, word)
	{
		AUTO_FREE char *text = NULL;

		if (!json_is_string(word))
			return -EINVAL;
		text = devcontainer_expand(v, json_string_value(word));
		if (!text)
			return -ENOMEM;
		if (i > 0)
			buf_puts(out, " ");
		setup_step_quote(out, text);
	}
	return 0;
}

/* All commands at the same time; the step fails if one of them does. */
static int command_add_object(const struct devcontainer_vars *v, struct buf *out,
			      const json_t *value)
{
	const char *name;
	json_t *one;
	size_t n = 0;
	int r = 0;

	json_object_foreach((json_t *)value, name, one)
	{
		struct buf single = BUF_INIT(COMMAND_MAX);

		r = command_add(v, &single, one);
		if (r == 0 && single.len > 0) {
			buf_puts(out, "/bin/sh -c ");
			setup_step_quote(out, single.data);
			buf_printf(out, " & p%zu=$!\n", n++);
		}
		if (single.failed)
			out->failed = true;
		buf_done(&single);
		if (r < 0)
			return r;
	}
	if (n == 0)
		return 0;
	buf_puts(out, "failed=0\n");
	for (size_t i = 0; i < n; i++)
		buf_printf(out, "wait \"$p%zu\" || failed=$?\n", i);
	buf_puts(out, "exit \"$failed\"");
	return 0;
}

/* A line for people: the property, and the start of the command. */
static void command_title(struct buf *out, const char *name, const json_t *value,
			  const char *run)
{
	buf_printf(out, "%s: ", name);
	if (json_is_object(value)) {
		const char *key;
		json_t *ignored;
		size_t n = 0;

		json_object_foreach((json_t *)value, key, ignored)
			buf_printf(out, "%s%s", n++ > 0 ? ", " : "", key);
	} else {
		size_t line = strcspn(run, "\n");

		buf_add(out, run, line);
	}
	if (out->len > TITLE_MAX) {
		out->len = TITLE_MAX - 3;
		while (out->len > 0 &&
		       ((unsigned char)out->data[out->len] & 0xc0) == 0x80)
			out->len--;
		out->data[out->len] = '\0';
		buf_puts(out, "...");
	}
}

int devcontainer_command(const struct devcontainer_vars *v, const char *name,
			 const json_t *value, bool start, struct warren_error *err)
{
	struct buf AUTO_BUF run = BUF_INIT(COMMAND_MAX);
	struct buf AUTO_BUF title = BUF_INIT(COMMAND_MAX);
	struct setup_step *s;
	int r = json_is_object(value) ? command_add_object(v, &run, value)
				      : command_add(v, &run, value);

	if (r == -EINVAL)
		return error_set(
			err, EINVAL,
			"%s: '%s' must be a string, a list of strings, or an object "
			"of these",
			v->plan->config, name);
	if (run.failed)
		return error_set(err, E2BIG, "%s: '%s' is too long", v->plan->config,
				 name);
	if (r < 0)
		return error_errno(err, -r, "%s: '%s'", v->plan->config, name);
	if (run.len == 0)
		return 0;
	command_title(&title, name, value, run.data);
	s = setup_steps_add(&v->plan->steps, err);
	if (!s)
		return -err->code;
	s->start = start;
	return setup_step_fill(s, title.data, "", v->plan->config, run.data, err);
}
