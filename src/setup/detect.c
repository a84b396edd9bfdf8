/* SPDX-License-Identifier: Apache-2.0 */
/* detect.c - apply the table of manifests to the directories of a project */
#include "setup/detect.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/strv.h"
#include "setup/inputs.h"
#include "setup/tree.h"

/* All file names of the table. */
struct detect_names {
	bool first[256]; /* the first bytes, to refuse most files quickly */
	char **exact;    /* sorted */
	size_t n;
	char **patterns;
};

/* ------------------------------------------------------------------- names */

static int detect_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int detect_names_add(struct detect_names *n, const char *name)
{
	n->first[(unsigned char)name[0]] = true;
	if (!strchr(name, '*'))
		return strv_add(&n->exact, name);
	if (name[0] == '*')
		(void)memset(n->first, true, sizeof(n->first));
	return strv_add(&n->patterns, name);
}

static int detect_names_add_words(struct detect_names *n, const char *words)
{
	AUTO_FREE char *copy = words ? strdup(words) : NULL;
	char *save = NULL;
	int r = words && !copy ? -ENOMEM : 0;

	for (char *w = copy ? strtok_r(copy, " ", &save) : NULL; r == 0 && w;
	     w = strtok_r(NULL, " ", &save))
		r = detect_names_add(n, w);
	return r;
}

static void detect_names_done(struct detect_names *n)
{
	(void)strv_free(n->exact);
	(void)strv_free(n->patterns);
}

static int detect_names_init(struct detect_names *n)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n_detect_table; i++) {
		const struct detect_row *row = &detect_table[i];

		r = detect_names_add(n, row->file);
		if (r == 0 && row->lock)
			r = detect_names_add(n, row->lock);
		if (r == 0)
			r = detect_names_add_words(n, row->files);
	}
	n->n = strv_len((union strv){ .list = n->exact });
	if (n->exact)
		qsort(n->exact, n->n, sizeof(char *), detect_compare);
	return r;
}

static bool detect_wanted(const void *ctx, const char *name)
{
	const struct detect_names *n = ctx;

	if (!n->first[(unsigned char)name[0]])
		return false;
	if (bsearch(&name, n->exact, n->n, sizeof(char *), detect_compare))
		return true;
	for (char **v = n->patterns; v && *v; v++)
		if (fnmatch(*v, name, 0) == 0)
			return true;
	return false;
}

/* The names of the table, as a sum. */
static void detect_names_rules(const struct detect_names *n, char ret[SHA256_DIGITS + 1])
{
	struct sha256 h = SHA256_INIT;

	for (char **v = n->exact; v && *v; v++)
		sha256_text(&h, *v);
	sha256_text(&h, "patterns");
	for (char **v = n->patterns; v && *v; v++)
		sha256_text(&h, *v);
	sha256_end(&h, ret);
}

static int detect_scan(int project_fd, const char *memory, struct setup_scan *ret,
		       struct warren_error *err)
{
	struct detect_names names = { 0 };
	char rules[SHA256_DIGITS + 1];
	int r = detect_names_init(&names);

	detect_names_rules(&names, rules);
	r = r < 0 ? error_errno(err, -r, "look for manifests")
		  : setup_scan(project_fd, detect_wanted, &names,
			       memory ? &(struct setup_scan_memory){ memory, rules }
				      : NULL,
			       ret, err);
	detect_names_done(&names);
	return r;
}

/* ---------------------------------------------------------------- matching */

/* Does the file contain one of the lines of @words? A file that cannot be read does not.
 */
static bool detect_contains(int project_fd, const char *dir, const char *name,
			    const char *words)
{
	AUTO_FREE char *path = setup_tree_join(dir, name);
	AUTO_FREE char *text = NULL;
	AUTO_FREE char *copy = strdup(words);
	struct warren_error ignored = WARREN_ERROR_INIT;
	char *save = NULL;

	if (!path || !copy ||
	    setup_tree_read(project_fd, path, &text, NULL, &ignored) < 0)
		return false;
	for (char *w = strtok_r(copy, "\n", &save); w; w = strtok_r(NULL, "\n", &save))
		if (strstr(text, w))
			return true;
	return false;
}

static bool detect_matches(int project_fd, const struct setup_dir *d,
			   const struct detect_row *row)
{
	return setup_dir_has(d, row->file) &&
	       (!row->lock || setup_dir_has(d, row->lock)) &&
	       (!row->text || detect_contains(project_fd, d->path, row->file, row->text));
}

/* Does the step of this row do the work of all directories below? */
static bool detect_has_members(int project_fd, const struct setup_dir *d,
			       const struct detect_row *row)
{
	const char *colon = row->members ? strchr(row->members, ':') : NULL;
	char name[64];

	if (!row->members)
		return false;
	if (strcmp(row->members, "*") == 0)
		return true;
	if (!colon)
		return setup_dir_has(d, row->members);
	(void)snprintf(name, sizeof(name), "%.*s", (int)(colon - row->members),
		       row->members);
	return detect_contains(project_fd, d->path, name, colon + 1);
}

static bool detect_is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return n == 0 || (strncmp(path, dir, n) == 0 && (!path[n] || path[n] == '/'));
}

/* ------------------------------------------------------------------- files */

static int detect_add_file(char ***files, const char *dir, const char *name)
{
	AUTO_FREE char *path = setup_tree_join(dir, name);

	if (!path)
		return -ENOMEM;
	for (char **v = *files; v && *v; v++)
		if (strcmp(*v, path) == 0)
			return 0;
	return strv_add(files, path);
}

static bool detect_row_has(const struct detect_row *row, const char *name)
{
	char words[512];
	char *save = NULL;

	if (strcmp(row->file, name) == 0 || (row->lock && strcmp(row->lock, name) == 0))
		return true;
	(void)snprintf(words, sizeof(words), "%s", row->files ? row->files : "");
	for (char *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save))
		if (fnmatch(w, name, 0) == 0)
			return true;
	return false;
}

static int detect_dir_files(const struct setup_dir *d, const struct detect_row *row,
			    char ***files)
{
	int r = 0;

	for (char **v = d->names; r == 0 && v && *v; v++)
		if (!row || detect_row_has(row, *v))
			r = detect_add_file(files, d->path, *v);
	return r;
}

/* ------------------------------------------------------------------- steps */

/* A step whose members are in the directories below. */
struct detect_cover {
	const struct detect_row *row;
	const struct setup_dir *dir;
	size_t step;
};

struct detect_work {
	int project_fd;
	struct setup_plan *plan;
	struct detect_cover covers[SETUP_STEPS_MAX];
	size_t n_covers;
};

/* Find the step that does the work of this directory for the row's group. */
static const struct detect_cover *detect_covered(const struct detect_work *w,
						 const struct setup_dir *d,
						 const struct detect_row *row)
{
	for (size_t i = 0; i < w->n_covers; i++)
		if (strcmp(w->covers[i].row->group, row->group) == 0 &&
		    detect_is_below(d->path, w->covers[i].dir->path))
			return &w->covers[i];
	return NULL;
}

static int detect_add_step(struct detect_work *w, const struct setup_dir *d,
			   const struct detect_row *row, struct warren_error *err)
{
	struct setup_step *s = setup_steps_add(&w->plan->steps, err);
	int r;

	if (!s)
		return -err->code;
	s->title = strdup(row->title);
	s->dir = strdup(d->path);
	s->why = setup_tree_join(d->path, row->lock ? row->lock : row->file);
	s->run = strdup(row->run);
	s->verify = strdup(row->verify);
	s->needs = row->needs;
	if (!s->title || !s->dir || !s->why || !s->run || !s->verify)
		return error_errno(err, ENOMEM, "plan the setup");
	r = detect_dir_files(d, row, &s->files);
	if (r < 0)
		return error_errno(err, -r, "plan the setup");
	r = setup_inputs_row(w->project_fd, row, d->path, s, err);
	if (r < 0)
		return r;
	if (detect_has_members(w->project_fd, d, row))
		w->covers[w->n_covers++] =
			(struct detect_cover){ row, d, w->plan->steps.n - 1 };
	return 0;
}

/* Apply the rows to one directory. */
static int detect_dir(struct detect_work *w, const struct setup_dir *d,
		      struct warren_error *err)
{
	const char *done = "";
	int r = 0;

	for (size_t i = 0; r == 0 && i < n_detect_table; i++) {
		const struct detect_row *row = &detect_table[i];
		const struct detect_cover *cover;

		if (strcmp(row->group, done) == 0 ||
		    !detect_matches(w->project_fd, d, row))
			continue;
		done = row->group;
		cover = detect_covered(w, d, row);
		if (cover) {
			struct setup_step *s = &w->plan->steps.v[cover->step];

			r = detect_dir_files(d, row, &s->files);
			if (r < 0)
				return error_errno(err, -r, "plan the setup");
			r = setup_inputs_row(w->project_fd, row, d->path, s, err);
		} else if (w->plan->steps.n < SETUP_STEPS_MAX) {
			r = detect_add_step(w, d, row, err);
		} else {
			setup_plan_note(w->plan,
					"%s/%s: not set up, because there are "
					"already %d steps",
					d->path, row->file, SETUP_STEPS_MAX);
		}
	}
	return r;
}

int setup_detect(int project_fd, const char *memory, struct setup_plan *p,
		 struct warren_error *err)
{
	struct detect_work w = { .project_fd = project_fd, .plan = p };
	struct setup_scan scan = { 0 };
	int r = detect_scan(project_fd, memory, &scan, err);

	for (size_t i = 0; r == 0 && i < scan.n; i++)
		r = detect_dir(&w, &scan.v[i], err);
	if (r == 0 && scan.truncated)
		setup_plan_note(p, "the project has too many directories; only those "
				   "near its top were searched for manifests");
	setup_scan_done(&scan);
	return r;
}

bool setup_detect_knows(const char *name)
{
	for (size_t i = 0; i < n_detect_table; i++)
		if (detect_row_has(&detect_table[i], name))
			return true;
	return false;
}

int setup_detect_files(int project_fd, const char *memory, char ***files,
		       struct warren_error *err)
{
	struct setup_scan scan = { 0 };
	int r = detect_scan(project_fd, memory, &scan, err);

	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < scan.n; i++)
		r = detect_dir_files(&scan.v[i], NULL, files);
	setup_scan_done(&scan);
	return r < 0 ? error_errno(err, -r, "look for manifests") : 0;
}
