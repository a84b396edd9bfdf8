/* SPDX-License-Identifier: Apache-2.0 */
/* inputs.c - decide what the tools of the table read, by the contents of manifests */
#include "setup/inputs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/strv.h"
#include "setup/steps.h"
#include "setup/tree.h"

int setup_inputs_set(struct setup_step *s, unsigned reads, const char *path,
		     const char *why, struct warren_error *err)
{
	if ((reads & SETUP_READS_ALL) && !s->reads_why &&
	    asprintf(&s->reads_why, "%s%s%s", path, path[0] ? " " : "", why) < 0) {
		s->reads_why = NULL;
		return error_errno(err, ENOMEM, "plan the setup");
	}
	s->reads |= reads;
	return 0;
}

/* The text of a manifest; NULL: it cannot be read, so nothing is known about it. */
char *setup_inputs_read(int project_fd, const char *dir, const char *name,
			char **ret_path)
{
	struct warren_error unread = WARREN_ERROR_INIT;
	char *text = NULL;

	*ret_path = setup_tree_join(dir, name);
	if (!*ret_path ||
	    setup_tree_read(project_fd, *ret_path, &text, NULL, &unread) < 0)
		return NULL;
	return text;
}

bool setup_inputs_has(int project_fd, const char *dir, const char *name)
{
	AUTO_FREE char *path = setup_tree_join(dir, name);

	return path && setup_tree_has(project_fd, path);
}

/* The first of @words that the text contains; NULL: none. */
const char *setup_inputs_find(const char *text, const char *const *words)
{
	for (; *words; words++)
		if (strstr(text, *words))
			return *words;
	return NULL;
}

/* A file that the tool reads if it is there. */
static int inputs_add(int project_fd, struct setup_step *s, const char *dir,
		      const char *name)
{
	AUTO_FREE char *path = setup_tree_join(dir, name);

	if (!path)
		return -ENOMEM;
	return setup_tree_has(project_fd, path) ? strv_add(&s->files, path) : 0;
}

int setup_inputs_add_words(int project_fd, struct setup_step *s, const char *dir,
			   const char *const *names)
{
	int r = 0;

	for (; r == 0 && *names; names++)
		r = inputs_add(project_fd, s, dir, *names);
	return r;
}

/* ------------------------------------------------------------------ python */

/* What makes a build of a Python project run its code, or read files anywhere. */
static const char *const inputs_python_code[] = { "dynamic",
						  "backend-path",
						  "hooks",
						  "cmdclass",
						  "ext-modules",
						  "ext_modules",
						  "path =",
						  "path=",
						  "file:",
						  "workspace",
						  "[tool.poetry.build]",
						  "[tool.maturin",
						  "[tool.scikit-build",
						  "from-file",
						  "attr =",
						  "attr:",
						  "build.py",
						  "cython",
						  "mypyc",
						  "version_variable",
						  "[tool.setuptools_scm",
						  NULL };

/* Backends whose editable builds read only what is in the project's own directory. */
static const char *const inputs_python_backends[] = { "setuptools.build_meta",
						      "hatchling.build",
						      "flit_core.buildapi",
						      "poetry.core.masonry.api",
						      "pdm.backend",
						      "uv_build",
						      NULL };

static int inputs_python(int project_fd, const struct detect_row *row, const char *dir,
			 struct setup_step *s, struct warren_error *err)
{
	static const char *const extra[] = { "setup.py", "setup.cfg", "uv.lock", NULL };
	AUTO_FREE char *text = NULL, *path = NULL, *setup_cfg = NULL, *cfg_path = NULL;
	const char *why = NULL;
	int r = 0;

	text = setup_inputs_read(project_fd, dir, row->file, &path);
	setup_cfg = setup_inputs_read(project_fd, dir, "setup.cfg", &cfg_path);
	if (!path)
		return error_errno(err, ENOMEM, "plan the setup");
	if (!text)
		why = "is not understood";
	else if (setup_inputs_has(project_fd, dir, "setup.py"))
		why = "has a setup.py next to it, which is code";
	else if (setup_inputs_find(text, inputs_python_code) ||
		 (setup_cfg && setup_inputs_find(setup_cfg, inputs_python_code)))
		why = "asks for a build that reads other files";
	else if (strstr(text, "where") && !strstr(text, "src"))
		why = "names directories of packages";
	else if (strstr(text, "build-backend") &&
		 !setup_inputs_find(text, inputs_python_backends))
		why = "has a build backend that Warren does not know";
	/* README and LICENSE become metadata; packages are found by their directories. */
	if (!why && strv_add(&s->lists, dir) < 0)
		r = -ENOMEM;
	if (r == 0)
		r = setup_inputs_add_words(project_fd, s, dir, extra);
	if (r < 0)
		return error_errno(err, -r, "plan the setup");
	return why ? setup_inputs_set(s, SETUP_READS_ALL, path, why, err) : 0;
}

/* ------------------------------------------------------------------ others */

static int inputs_rust(int project_fd, const struct detect_row *row, const char *dir,
		       struct setup_step *s, struct warren_error *err)
{
	static const char *const members[] = { "path", "[workspace", NULL };
	static const char *const config[] = { ".cargo/config.toml", ".cargo/config",
					      NULL };
	AUTO_FREE char *text = NULL, *path = NULL;

	if (setup_inputs_add_words(project_fd, s, dir, config) < 0)
		return error_errno(err, ENOMEM, "plan the setup");
	text = setup_inputs_read(project_fd, dir, row->file, &path);
	/* Of path dependencies and members, cargo fetch reads only the manifests. */
	return !text || setup_inputs_find(text, members)
		       ? setup_inputs_set(s, SETUP_READS_NAMES, "", "", err)
		       : 0;
}

static int inputs_go(int project_fd, const struct detect_row *row, const char *dir,
		     struct setup_step *s, struct warren_error *err)
{
	AUTO_FREE char *text = NULL, *path = NULL;

	text = setup_inputs_read(project_fd, dir, row->file, &path);
	return !text || strstr(text, "=> .") ||
			       setup_inputs_has(project_fd, dir, "go.work")
		       ? setup_inputs_set(s, SETUP_READS_NAMES, "", "", err)
		       : 0;
}

static int inputs_maven(int project_fd, const struct detect_row *row, const char *dir,
			struct setup_step *s, struct warren_error *err)
{
	static const char *const config[] = { ".mvn/extensions.xml", ".mvn/maven.config",
					      ".mvn/jvm.config", NULL };

	(void)row;
	if (setup_inputs_add_words(project_fd, s, dir, config) < 0)
		return error_errno(err, ENOMEM, "plan the setup");
	return setup_inputs_set(s, SETUP_READS_NAMES, "", "", err);
}

/* A manifest is code, or data with scripts: the words that say so. */
static int inputs_words(int project_fd, const struct detect_row *row, const char *dir,
			struct setup_step *s, const char *const *words,
			struct warren_error *err)
{
	AUTO_FREE char *text = NULL, *path = NULL;

	text = setup_inputs_read(project_fd, dir, row->file, &path);
	if (text && !setup_inputs_find(text, words))
		return 0;
	return setup_inputs_set(s, SETUP_READS_ALL, path ? path : row->file,
				"runs code of the project, or names paths", err);
}

static int inputs_ruby(int project_fd, const struct detect_row *row, const char *dir,
		       struct setup_step *s, struct warren_error *err)
{
	static const char *const words[] = {
		"path", "gemspec",  "eval",   "require_relative",
		"File", "IO.",      "load",   "Dir",
		"`",    "system",   "%x",     "exec",
		"open", "Pathname", "import", NULL
	};

	return inputs_words(project_fd, row, dir, s, words, err);
}

static int inputs_php(int project_fd, const struct detect_row *row, const char *dir,
		      struct setup_step *s, struct warren_error *err)
{
	static const char *const words[] = { "\"scripts\"", "\"path\"",
					     "classmap",    "\"artifact\"",
					     "\"files\"",   "psr-0",
					     NULL };

	return inputs_words(project_fd, row, dir, s, words, err);
}

static int inputs_code(int project_fd, const struct detect_row *row, const char *dir,
		       struct setup_step *s, struct warren_error *err)
{
	AUTO_FREE char *path = setup_tree_join(dir, row->file);

	(void)project_fd;
	return setup_inputs_set(s, SETUP_READS_ALL, path ? path : row->file,
				"is code, which may read any file", err);
}

/* ------------------------------------------------------------------- table */

static const struct {
	const char *name; /* detect_row.name */
	int (*add)(int project_fd, const struct detect_row *row, const char *dir,
		   struct setup_step *s, struct warren_error *err);
} inputs_table[] = {
	{ "uv", inputs_python },       { "poetry", inputs_python },
	{ "pnpm", setup_inputs_node }, { "yarn", setup_inputs_node },
	{ "npm", setup_inputs_node },  { "cargo", inputs_rust },
	{ "go", inputs_go },           { "bundler", inputs_ruby },
	{ "maven", inputs_maven },     { "composer", inputs_php },
};

static int inputs_of_row(int project_fd, const struct detect_row *row, const char *dir,
			 struct setup_step *s, struct warren_error *err)
{
	if (strcmp(row->name, "pip") == 0)
		return row->text ? inputs_python(project_fd, row, dir, s, err)
				 : setup_inputs_requirements(project_fd, dir, s, err);
	for (size_t i = 0; i < ARRAY_SIZE(inputs_table); i++)
		if (strcmp(row->name, inputs_table[i].name) == 0)
			return inputs_table[i].add(project_fd, row, dir, s, err);
	return inputs_code(project_fd, row, dir, s, err);
}

int setup_inputs_row(int project_fd, const struct detect_row *row, const char *dir,
		     struct setup_step *s, struct warren_error *err)
{
	int r = inputs_of_row(project_fd, row, dir, s, err);

	return r < 0 ? r : setup_inputs_config(project_fd, dir, s, err);
}

int setup_inputs_command(int project_fd, struct setup_step *s, struct warren_error *err)
{
	for (size_t i = 0; i < n_detect_table; i++) {
		const struct detect_row *row = &detect_table[i];

		/* The lock file decides between rows with the same title. */
		if (strcmp(s->run, row->title) == 0 &&
		    setup_inputs_has(project_fd, s->dir, row->file))
			return setup_inputs_row(project_fd, row, s->dir, s, err);
	}
	return setup_inputs_set(s, SETUP_READS_ALL, "", "the command may read any file",
				err);
}
