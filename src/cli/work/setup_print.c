/* SPDX-License-Identifier: Apache-2.0 */
/* setup_print.c - print what a setup would do, and why */
#include "cli/work/setup_print.h"

#include <string.h>

#include "base/utf8.h"
#include "cli/work/setup_ask.h"

static const char *const print_sources[SETUP_SOURCE_MAX] = {
	[SETUP_NONE] = "",
	[SETUP_DEVCONTAINER] = "the commands of devcontainer.json",
	[SETUP_YAML] = "the steps of warren.yaml",
	[SETUP_SCRIPT] = "setup.sh, which ",
	[SETUP_MAKE] = "the target 'setup' of the makefile, which ",
	[SETUP_DETECTED] = "recognised manifests",
};

void setup_print_text(struct buf *out, const char *text)
{
	setup_print_bytes(out, text, strlen(text));
}

void setup_print_bytes(struct buf *out, const char *text, size_t size)
{
	for (size_t i = 0, n; i < size; i += n)
		if (utf8_shows(text + i, size - i, &n))
			buf_add(out, text + i, n);
		else
			buf_puts(out, "?");
}

void setup_print_lines(struct buf *out, const char *indent, const char *text, size_t size)
{
	for (size_t i = 0, n; i < size; i += n) {
		const char *c = text + i;

		if (i == 0 || c[-1] == '\n')
			buf_puts(out, indent);
		if (utf8_shows(c, size - i, &n) || *c == '\n' || *c == '\t')
			buf_add(out, c, n);
		else if (*c != '\r' && *c != '\0')
			buf_puts(out, "?");
	}
	if (out->len > 0 && out->data[out->len - 1] != '\n')
		buf_puts(out, "\n");
}

void setup_print_step(struct buf *out, const struct setup_step *s)
{
	setup_print_text(out, s->title);
	if (s->dir[0]) {
		buf_puts(out, " (");
		setup_print_text(out, s->dir);
		buf_puts(out, "/)");
	}
}

static void print_field(struct buf *out, const char *name, const char *value)
{
	if (!value)
		return;
	buf_printf(out, "%-9s ", name);
	setup_print_text(out, value);
	buf_puts(out, "\n");
}

/* Each line of a command, indented. */
static void print_command(struct buf *out, const char *name, const char *command)
{
	const char *line = command;

	while (line && *line) {
		const char *end = strchrnul(line, '\n');

		buf_printf(out, "      %-8s", line == command ? name : "");
		setup_print_bytes(out, line, (size_t)(end - line));
		buf_puts(out, "\n");
		line = end + (*end == '\n');
	}
}

static void print_steps(struct buf *out, const struct setup_plan *p, bool start)
{
	for (size_t i = 0, n = 0; i < p->steps.n; i++) {
		const struct setup_step *s = &p->steps.v[i];

		if (s->start != start)
			continue;
		buf_printf(out, "  %zu. ", ++n);
		setup_print_step(out, s);
		buf_puts(out, ", because of ");
		setup_print_text(out, s->why);
		buf_puts(out, "\n");
		print_command(out, "run", s->run);
		print_command(out, "verify", s->verify ? s->verify : "");
		if (s->reads_why) {
			buf_puts(
				out,
				"      again after every change of the project, because ");
			setup_print_text(out, s->reads_why);
			buf_puts(out, "\n");
		}
	}
}

/* Return whether there are steps of this kind. */
static bool print_has_steps(const struct setup_plan *p, bool start)
{
	for (size_t i = 0; i < p->steps.n; i++)
		if (p->steps.v[i].start == start)
			return true;
	return false;
}

static void print_list(struct buf *out, const char *title, char *const *list)
{
	if (list && *list)
		buf_printf(out, "%s:\n", title);
	for (; list && *list; list++) {
		buf_puts(out, "  ");
		setup_print_text(out, *list);
		buf_puts(out, "\n");
	}
}

/* Some steps depend on an answer of the user. */
static const char *print_approved(int answer)
{
	return answer == 1 ? "you approved" : "has to be approved once";
}

static void print_starts(struct buf *out, const struct setup_plan *p, int answer)
{
	buf_printf(out, "at each start%s:\n",
		   answer == 1 ? ", which you approved"
		   : answer == 0
			   ? ", not run, because you refused it; " SETUP_APPROVE_STARTS
			   : ", which has to be approved once");
	print_steps(out, p, true);
}

void setup_print_plan(struct buf *out, const char *project, const struct setup_plan *p,
		      const struct setup_answers *answers)
{
	print_field(out, "project", project);
	print_field(out, "config", p->config);
	print_field(out, "image", p->image);
	print_field(out, "build", p->build.dockerfile);
	print_field(out, "user", p->user);
	print_field(out, "workdir", p->workdir);
	print_list(out, "environment", p->env);
	for (size_t i = 0; i < p->n_mounts; i++)
		print_field(out, "tmpfs", p->mounts[i].target);
	for (size_t i = 0; i < p->n_ports; i++)
		buf_printf(out, "%-9s %u\n", "port", p->ports[i]);
	print_list(out, "hosts that the project wants to reach", p->allow);
	print_list(out, "hidden files", p->hide);
	if (print_has_steps(p, false)) {
		buf_printf(out, "setup, once (%s%s):\n", print_sources[p->source],
			   p->ask ? print_approved(answers->script) : "");
		print_steps(out, p, false);
	} else {
		buf_puts(out, "setup: nothing to do\n");
	}
	if (print_has_steps(p, true))
		print_starts(out, p, answers->starts);
	print_list(out, "files that determine the setup", p->files);
	print_list(out, "notes", p->notes);
}
