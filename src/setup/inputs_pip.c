/* SPDX-License-Identifier: Apache-2.0 */
/* inputs_pip.c - the files that requirements.txt includes, and paths that it names */
#include <errno.h>
#include <string.h>

#include "base/strv.h"
#include "setup/inputs.h"
#include "setup/steps.h"
#include "setup/tree.h"

#define PIP_INCLUDES_MAX 32   /* files that requirements.txt includes */
#define PIP_LINE_MAX     4096 /* bytes of a line */

/* What one requirement file after the other includes. */
struct pip_files {
	char *v[PIP_INCLUDES_MAX]; /* paths below the project */
	size_t n;
};

/* The name after one of these options; NULL: another line. The line is cut after it. */
static char *pip_option(char *line, const char *const *options)
{
	for (; *options; options++) {
		size_t n = strlen(*options);
		char *name = line + n;

		/* pip accepts "-rfile", but "--requirement" needs a separator. */
		if (strncmp(line, *options, n) != 0 || (n > 2 && !strchr(" \t=", *name)))
			continue;
		name += strspn(name, " \t=");
		name[strcspn(name, " \t\r#")] = '\0';
		return name;
	}
	return NULL;
}

static bool pip_is_url(const char *text)
{
	return strstr(text, "://") && !strstr(text, "file:");
}

/* Does a line that is not an option name a path? If in doubt, it does. */
static bool pip_is_path(char *line)
{
	static const char *const files[] = {
		"file:", "${", ".whl", ".tar", ".zip", NULL
	};
	char *save = NULL, *name;

	if (pip_is_url(line) && !strstr(line, "${"))
		return false;
	for (const char *const *w = files; *w; w++)
		if (strstr(line, *w))
			return true;
	name = strtok_r(line, " \t\r;#", &save);
	return name && (name[0] == '.' || strchr(name, '/'));
}

/* Look at a line of @from; *@ret_path: it names a path. */
static int pip_line(struct pip_files *f, const char *from, char *line, bool *ret_path)
{
	static const char *const includes[] = { "-r", "-c", "--requirement",
						"--constraint", NULL };
	static const char *const paths[] = { "-e", "-f", "--editable", "--find-links",
					     NULL };
	const char *slash = strrchr(from, '/');
	AUTO_FREE char *dir = NULL;
	char *name;

	line += strspn(line, " \t\r");
	name = pip_option(line, includes);
	if (!name || pip_is_url(name)) {
		name = name ? NULL : pip_option(line, paths);
		if (name)
			*ret_path |= !pip_is_url(name);
		else if (line[0] != '#' && line[0] != '-' && line[0] != '\0')
			*ret_path |= strlen(line) > PIP_LINE_MAX || pip_is_path(line);
		return 0;
	}
	dir = slash ? strndup(from, (size_t)(slash - from)) : strdup("");
	if (!dir)
		return -ENOMEM;
	f->v[f->n] = f->n < PIP_INCLUDES_MAX - 1 ? setup_path_below(dir, name) : NULL;
	if (!f->v[f->n])
		*ret_path = true; /* outside the project, or too many */
	else
		f->n++;
	return 0;
}

static int pip_read(int project_fd, struct pip_files *f, size_t at, bool *ret_path)
{
	AUTO_FREE char *text = NULL;
	struct warren_error unread = WARREN_ERROR_INIT;
	char *save = NULL;
	int r = 0;

	for (size_t i = 0; i < at; i++)
		if (strcmp(f->v[i], f->v[at]) == 0)
			return 0;
	if (setup_tree_read(project_fd, f->v[at], &text, NULL, &unread) < 0)
		return 0;
	for (char *line = strtok_r(text, "\n", &save); r == 0 && line;
	     line = strtok_r(NULL, "\n", &save))
		r = pip_line(f, f->v[at], line, ret_path);
	return r;
}

int setup_inputs_requirements(int project_fd, const char *dir, struct setup_step *s,
			      struct warren_error *err)
{
	struct pip_files f = { .v = { setup_tree_join(dir, "requirements.txt") },
			       .n = 1 };
	bool path = false;
	int r = f.v[0] ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < f.n; i++) {
		r = pip_read(project_fd, &f, i, &path);
		if (r == 0)
			r = strv_add(&s->files, f.v[i]);
	}
	if (r < 0)
		r = error_errno(err, -r, "plan the setup");
	else if (path)
		r = setup_inputs_set(s, SETUP_READS_ALL, f.v[0],
				     "has requirements that are files or directories",
				     err);
	for (size_t i = 0; i < f.n; i++)
		free(f.v[i]);
	return r;
}
