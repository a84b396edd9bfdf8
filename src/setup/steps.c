/* SPDX-License-Identifier: Apache-2.0 */
/* steps.c - written steps, scripts, and the files that determine them */
#include "setup/steps.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/strv.h"
#include "setup/detect.h"
#include "setup/inputs.h"
#include "setup/tree.h"

#define WORDS_MAX 200 /* of a step that are looked up as files */

int setup_step_fill(struct setup_step *s, const char *title, const char *dir,
		    const char *why, const char *run, struct warren_error *err)
{
	s->title = strdup(title);
	s->dir = strdup(dir);
	s->why = strdup(why);
	s->run = strdup(run);
	if (!s->title || !s->dir || !s->why || !s->run)
		return error_errno(err, ENOMEM, "plan the setup");
	return 0;
}

char *setup_path_below(const char *dir, const char *name)
{
	AUTO_FREE char *path = setup_tree_join(dir, name);
	AUTO_FREE char *clean = path ? calloc(1, strlen(path) + 1) : NULL;
	char *save = NULL;
	size_t n = 0;

	if (!clean || name[0] == '/')
		return NULL;
	for (char *part = strtok_r(path, "/", &save); part;
	     part = strtok_r(NULL, "/", &save)) {
		if (strcmp(part, ".") == 0)
			continue;
		if (strcmp(part, "..") == 0) {
			if (n == 0)
				return NULL;
			while (n > 0 && clean[--n] != '/')
				;
		} else {
			if (n > 0)
				clean[n++] = '/';
			(void)strcpy(clean + n, part);
			n += strlen(part);
		}
		clean[n] = '\0';
	}
	return TAKE_PTR(clean);
}

void setup_step_quote(struct buf *out, const char *word)
{
	buf_puts(out, "'");
	for (; *word; word++) {
		if (*word == '\'')
			buf_puts(out, "'\\''");
		else
			buf_add(out, word, 1);
	}
	buf_puts(out, "'");
}

/* Add the file that the word @w of the step's commands names, if it is one. */
static int steps_add_word(int project_fd, struct setup_step *s, const char *w)
{
	AUTO_FREE char *path = setup_path_below(s->dir, w);

	if (!path || !path[0] || !strpbrk(w, "./") || !setup_tree_has(project_fd, path))
		return 0;
	return strv_add(&s->files, path) < 0 ? -ENOMEM : 0;
}

static int steps_add_words(int project_fd, struct setup_step *s)
{
	AUTO_FREE char *copy = strdup(s->run);
	char *save = NULL;
	size_t n = 0;
	int r = 0;

	if (!copy)
		return -ENOMEM;
	for (char *w = strtok_r(copy, " \t\n;&|()'\"", &save);
	     w && r == 0 && n < WORDS_MAX;
	     w = strtok_r(NULL, " \t\n;&|()'\"", &save), n++)
		r = steps_add_word(project_fd, s, w);
	return r;
}

int setup_steps_guess_files(int project_fd, const char *memory, struct setup_steps *steps,
			    struct warren_error *err)
{
	struct setup_step *first = NULL;
	int r = 0;

	for (size_t i = 0; r == 0 && i < steps->n; i++) {
		if (steps->v[i].files || steps->v[i].start)
			continue;
		r = steps_add_words(project_fd, &steps->v[i]);
		if (r == 0)
			r = setup_inputs_command(project_fd, &steps->v[i], err);
		first = first ? first : &steps->v[i];
	}
	if (r < 0)
		return error_errno(err, -r, "plan the setup");
	/* The files of all steps are in the key, so one of them is enough. */
	return first ? setup_detect_files(project_fd, memory, &first->files, err) : 0;
}

/* ----------------------------------------------------------------- scripts */

/* Does the makefile have the target `setup`? */
static bool script_has_target(const char *text)
{
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, "setup", 5) != 0)
			continue;
		line += 5;
		line += strspn(line, " ");
		if (line[0] == ':' && line[1] != '=' && strncmp(line, "::=", 3) != 0)
			return true;
	}
	return false;
}

/*
 * Without the executable bit, users run it as `bash setup.sh`: with the interpreter of
 * its first line, which gets at most one argument, as from execve(2).
 */
static char *script_run(const char *text)
{
	struct buf out = BUF_INIT(4096);
	char line[256] = "";
	char *word, *rest = NULL;

	if (strncmp(text, "#!", 2) == 0)
		(void)snprintf(line, sizeof(line), "%.*s", (int)strcspn(text + 2, "\r\n"),
			       text + 2);
	word = strtok_r(line, " \t", &rest);
	buf_puts(&out, "if [ -x ./setup.sh ]; then ./setup.sh\nelse ");
	setup_step_quote(&out, word ? word : "/bin/sh");
	rest = rest ? rest + strspn(rest, " \t") : NULL;
	for (size_t n = rest ? strlen(rest) : 0; n > 0 && strchr(" \t", rest[n - 1]); n--)
		rest[n - 1] = '\0';
	if (rest && *rest) {
		buf_puts(&out, " ");
		setup_step_quote(&out, rest);
	}
	buf_puts(&out, " ./setup.sh; fi");
	if (out.failed) {
		buf_done(&out);
		return NULL;
	}
	return out.data;
}

static int script_use(int project_fd, const char *memory, struct setup_plan *p,
		      const char *name, const char *text, bool make,
		      struct warren_error *err)
{
	struct setup_step *s = setup_steps_add(&p->steps, err);
	AUTO_FREE char *run = make ? strdup("make setup") : script_run(text);
	struct sha256 h = SHA256_INIT;
	int r;

	if (!s)
		return -err->code;
	if (!run)
		return error_errno(err, ENOMEM, "plan the setup");
	r = setup_step_fill(s, make ? "make setup" : "./setup.sh", "", name, run, err);
	if (r < 0)
		return r;
	p->source = make ? SETUP_MAKE : SETUP_SCRIPT;
	p->ask = strdup(name);
	p->ask_text = strdup(text);
	if (!p->ask || !p->ask_text || strv_add(&s->files, name) < 0)
		return error_errno(err, ENOMEM, "plan the setup");
	sha256_text(&h, name);
	sha256_text(&h, text);
	sha256_end(&h, p->ask_digest);
	r = setup_detect_files(project_fd, memory, &s->files, err);
	if (r == 0)
		r = setup_inputs_set(s, SETUP_READS_ALL, name,
				     "is code, which may read any file", err);
	return r < 0 ? r : 1;
}

int setup_script(int project_fd, const char *memory, struct setup_plan *p,
		 struct warren_error *err)
{
	static const char *const names[] = { "setup.sh", "GNUmakefile", "makefile",
					     "Makefile" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		AUTO_FREE char *text = NULL;
		struct warren_error why = WARREN_ERROR_INIT;
		int r = setup_tree_read(project_fd, names[i], &text, NULL, &why);

		if (r == -ENOENT)
			continue;
		if (r < 0) {
			*err = why;
			return r;
		}
		if (i == 0 || script_has_target(text))
			return script_use(project_fd, memory, p, names[i], text, i > 0,
					  err);
		return 0; /* make(1) reads only the first one */
	}
	return 0;
}
