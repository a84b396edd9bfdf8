/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - make the plan of a project, and compute its key */
#include "setup/plan.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/strv.h"
#include "setup/detect.h"
#include "setup/devcontainer.h"
#include "setup/inputs.h"
#include "setup/steps.h"
#include "setup/tree.h"

const char *const setup_source_names[SETUP_SOURCE_MAX] = {
	[SETUP_NONE] = "none",        [SETUP_DEVCONTAINER] = "devcontainer",
	[SETUP_YAML] = "warren.yaml", [SETUP_SCRIPT] = "setup.sh",
	[SETUP_MAKE] = "make setup",  [SETUP_DETECTED] = "detected",
};

/* ------------------------------------------------------------------- parts */

struct setup_step *setup_steps_add(struct setup_steps *s, struct warren_error *err)
{
	if (s->n == SETUP_STEPS_MAX) {
		(void)error_set(err, E2BIG, "there are more than %d steps",
				SETUP_STEPS_MAX);
		return NULL;
	}
	if (!s->v)
		s->v = calloc(SETUP_STEPS_MAX, sizeof(*s->v));
	if (!s->v) {
		(void)error_errno(err, ENOMEM, "plan the setup");
		return NULL;
	}
	return &s->v[s->n++];
}

void setup_steps_done(struct setup_steps *s)
{
	for (size_t i = 0; i < s->n; i++) {
		struct setup_step *step = &s->v[i];

		free(step->title);
		free(step->dir);
		free(step->why);
		free(step->run);
		free(step->verify);
		free(step->reads_why);
		(void)strv_free(step->files);
		(void)strv_free(step->lists);
	}
	free(s->v);
	*s = (struct setup_steps){ 0 };
}

void setup_plan_note(struct setup_plan *p, const char *fmt, ...)
{
	AUTO_FREE char *text = NULL;
	va_list args;
	int n;

	if (strv_len((union strv){ .list = p->notes }) >= SETUP_NOTES_MAX)
		return;
	va_start(args, fmt);
	n = vasprintf(&text, fmt, args);
	va_end(args);
	if (n < 0) {
		text = NULL;
		return;
	}
	(void)!strv_add(&p->notes, text);
}

void setup_plan_done(struct setup_plan *p)
{
	char **lists[] = { p->build.args, p->env,   p->allow, p->hide,
			   p->files,      p->lists, p->notes };
	char *texts[] = { p->config,        p->image, p->build.dockerfile,
			  p->build.context, p->user,  p->workdir,
			  p->build.target,  p->ask,   p->ask_text };

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		(void)strv_free(lists[i]);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		free(texts[i]);
	for (size_t i = 0; i < p->n_mounts; i++)
		free(p->mounts[i].target);
	setup_steps_done(&p->steps);
	*p = (struct setup_plan){ 0 };
}

/* -------------------------------------------------------------------- plan */

static int plan_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Collect the files of all steps: sorted, each once. */
static int plan_collect_files(struct setup_plan *p, struct warren_error *err)
{
	size_t n, kept = 0;

	for (size_t i = 0; i < p->steps.n; i++) {
		const struct setup_step *s = &p->steps.v[i];

		p->reads |= s->reads;
		for (char **v = s->files; v && *v; v++)
			if (strv_add(&p->files, *v) < 0)
				return error_errno(err, ENOMEM, "plan the setup");
		for (char **v = s->lists; v && *v; v++)
			if (strv_add(&p->lists, *v) < 0)
				return error_errno(err, ENOMEM, "plan the setup");
	}
	n = strv_len((union strv){ .list = p->files });
	if (n == 0 || !p->files)
		return 0;
	qsort(p->files, n, sizeof(char *), plan_compare);
	for (size_t i = 0; i < n; i++) {
		if (kept > 0 && strcmp(p->files[kept - 1], p->files[i]) == 0)
			free(p->files[i]);
		else
			p->files[kept++] = p->files[i];
	}
	p->files[kept] = NULL;
	if (kept > SETUP_FILES_MAX)
		return error_set(err, E2BIG, "more than %d files determine the setup",
				 SETUP_FILES_MAX);
	return 0;
}

/* Has the plan steps whose result is kept? */
static bool plan_has_steps(const struct setup_plan *p)
{
	for (size_t i = 0; i < p->steps.n; i++)
		if (!p->steps.v[i].start)
			return true;
	return false;
}

/*
 * A directory of the host as the root would show the sandbox what the user did not choose
 * to show: the home directory, other projects.
 */
static int plan_check_image(const struct setup_options *o, const struct setup_plan *p,
			    struct warren_error *err)
{
	if (o->image || !p->image || strncmp(p->image, "dir:", 4) != 0)
		return 0;
	return error_set(err, EPERM,
			 "%s: the image '%s' is a directory of this machine, which only "
			 "you can choose: use --image",
			 p->config ? p->config : "the project", p->image);
}

/*
 * Steps of the table do not depend on each other. Those that read least come first: if a
 * file changes, only the steps from the first one that reads it have to run again.
 */
static void plan_sort_steps(struct setup_steps *s)
{
	for (size_t i = 1; i < s->n; i++) {
		struct setup_step step = s->v[i];
		size_t at = i;

		for (; at > 0 && s->v[at - 1].reads > step.reads; at--)
			s->v[at] = s->v[at - 1];
		s->v[at] = step;
	}
}

/* Add the steps of the first source that has some. */
static int plan_fill(int project_fd, const struct setup_options *o, struct setup_plan *p,
		     struct warren_error *err)
{
	int r = devcontainer_read(project_fd, o, p, err);

	if (r < 0)
		return r;
	if (plan_has_steps(p))
		p->source = SETUP_DEVCONTAINER;
	r = setup_yaml(project_fd, p, err);
	if (r >= 0)
		r = plan_check_image(o, p, err);
	if (r >= 0 && p->source == SETUP_NONE && !o->no_script)
		r = setup_script(project_fd, o->memory, p, err);
	if (r >= 0 && p->source == SETUP_NONE) {
		r = setup_detect(project_fd, o->memory, p, err);
		if (r == 0 && plan_has_steps(p)) {
			p->source = SETUP_DETECTED;
			plan_sort_steps(&p->steps);
		}
	}
	if (r >= 0 && p->source != SETUP_DETECTED)
		r = setup_steps_guess_files(project_fd, o->memory, &p->steps, err);
	return r < 0 ? r : plan_collect_files(p, err);
}

int setup_plan_make(int project_fd, const struct setup_options *o, struct setup_plan *ret,
		    struct warren_error *err)
{
	struct setup_plan p = { 0 };
	int r = plan_fill(project_fd, o, &p, err);

	if (r < 0) {
		setup_plan_done(&p);
		return r;
	}
	*ret = p;
	return 0;
}

/* --------------------------------------------------------------------- key */

/* The version of the format: bump it when the steps' environment changes. */
#define KEY_VERSION "warren setup 6"

static void key_add_text(struct sha256 *h, const char *text)
{
	sha256_text(h, text ? text : "");
}

static void key_add_list(struct sha256 *h, char *const *list)
{
	char count[32];

	(void)snprintf(count, sizeof(count), "%zu",
		       strv_len((union strv){ .list_const = list }));
	sha256_text(h, count);
	for (; list && *list; list++)
		sha256_text(h, *list);
}

static void key_add_steps(struct sha256 *h, const struct setup_steps *s)
{
	for (size_t i = 0; i < s->n; i++) {
		if (s->v[i].start)
			continue;
		key_add_text(h, s->v[i].dir);
		key_add_text(h, s->v[i].run);
		key_add_text(h, s->v[i].verify);
	}
}

/* Add the contents of a file; one that is missing is different from an empty one. */
static int key_add_file(struct sha256 *h, int project_fd, const char *path,
			struct warren_error *err)
{
	AUTO_CLOSE int fd = setup_tree_open(project_fd, path);
	AUTO_FREE char *data = malloc(65536);
	uint64_t size = 0;
	ssize_t n = 0;

	if (!data)
		return error_errno(err, ENOMEM, "read %s", path);
	sha256_text(h, path);
	if (fd < 0) {
		sha256_text(h, "missing");
		return 0;
	}
	while ((n = read(fd, data, 65536)) > 0) {
		size += (uint64_t)n;
		if (size > SETUP_FILE_MAX)
			return error_set(err, EFBIG,
					 "%s is larger than 64 MiB; it determines the "
					 "setup (use 'warren work --no-setup')",
					 path);
		sha256_add(h, data, (size_t)n);
	}
	if (n < 0)
		return error_errno(err, errno, "read %s", path);
	(void)snprintf(data, 32, "%ju", (uintmax_t)size);
	sha256_text(h, data);
	return 0;
}

/* Add the .gitignore files of @dir and of those above it, but not the project's. */
static int key_add_ignored_dir(struct sha256 *h, int project_fd, const char *dir,
			       struct warren_error *err)
{
	int r = 0;

	for (const char *end = dir; r == 0 && *end; end += *end == '/') {
		AUTO_FREE char *path = NULL;

		end = strchrnul(end, '/');
		if (asprintf(&path, "%.*s/.gitignore", (int)(end - dir), dir) < 0) {
			path = NULL;
			return error_errno(err, ENOMEM, "inspect .gitignore");
		}
		r = key_add_file(h, project_fd, path, err);
	}
	return r;
}

/*
 * Add .gitignore files, which decide which files of the steps are kept (prune.c). Finding
 * all of them would need a walk through the project, so only those in directories to
 * which steps usually write are added.
 */
static int key_add_ignored(struct sha256 *h, int project_fd, const struct setup_steps *s,
			   struct warren_error *err)
{
	int r = key_add_file(h, project_fd, ".git/info/exclude", err);

	if (r == 0)
		r = key_add_file(h, project_fd, ".gitignore", err);
	for (size_t i = 0; r == 0 && i < s->n; i++)
		if (!s->v[i].start)
			r = key_add_ignored_dir(h, project_fd, s->v[i].dir, err);
	return r;
}

/*
 * Steps of a project write what they like to a layer, so another project must not start
 * from it, even if its plan is the same.
 */
int setup_plan_key(int project_fd, const struct setup_plan *p,
		   const struct setup_key_of *of, struct setup_key *ret,
		   struct warren_error *err)
{
	struct sha256 h = SHA256_INIT;
	struct setup_key key;
	int r;

	sha256_text(&h, KEY_VERSION);
	sha256_text(&h, of->project);
	sha256_text(&h, of->image_id);
	sha256_text(&h, of->workdir);
	key_add_text(&h, of->hidden);
	key_add_text(&h, p->user);
	key_add_list(&h, p->env);
	key_add_steps(&h, &p->steps);
	for (char **v = p->files; v && *v; v++) {
		r = key_add_file(&h, project_fd, *v, err);
		if (r < 0)
			return r;
	}
	r = key_add_ignored(&h, project_fd, &p->steps, err);
	if (r == 0)
		r = setup_inputs_sum(&h, project_fd, p, err);
	if (r < 0)
		return r;
	sha256_end(&h, key.key);
	*ret = key;
	return 0;
}

int setup_plan_key_of_prefix(int project_fd, const struct setup_plan *p, size_t n_steps,
			     const struct setup_key_of *of, struct setup_key *ret,
			     struct warren_error *err)
{
	struct setup_plan part = *p;
	int r;

	part.steps.n = n_steps;
	part.files = part.lists = NULL;
	part.reads = 0;
	r = plan_collect_files(&part, err);
	if (r == 0)
		r = setup_plan_key(project_fd, &part, of, ret, err);
	(void)strv_free(part.files);
	(void)strv_free(part.lists);
	return r;
}
