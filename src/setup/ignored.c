/* SPDX-License-Identifier: Apache-2.0 */
/* ignored.c - the .gitignore files of the directories on the way down */
#include "setup/ignored.h"

#include <errno.h>
#include <stdlib.h>

#include "base/gitignore.h"
#include "setup/tree.h"

/* Some seconds. */
#define IGNORED_WORK_MAX ((uint64_t)1 << 30)

struct setup_ignored {
	size_t n;
	uint64_t work; /* what matching patterns may still cost; 0: nothing is excluded */
	struct {
		struct gitignore rules;
		size_t at; /* where names in the directory begin in a path */
	} levels[SETUP_IGNORED_DEPTH + 2];
};

/* A file that cannot be read excludes nothing. */
static int ignored_add(struct setup_ignored *g, int dir, const char *name, size_t at)
{
	AUTO_FREE char *text = NULL;
	struct warren_error unread = WARREN_ERROR_INIT;
	size_t n = 0;

	if (g->n == ARRAY_SIZE(g->levels))
		return -ELOOP;
	g->levels[g->n].rules = (struct gitignore){ 0 };
	g->levels[g->n++].at = at;
	if (!setup_tree_has(dir, name) ||
	    setup_tree_read(dir, name, &text, &n, &unread) < 0)
		return 0;
	gitignore_spend(&g->work, GITIGNORE_PARSE_WORK(n));
	return g->work ? gitignore_parse(&g->levels[g->n - 1].rules, text, n) : 0;
}

struct setup_ignored *setup_ignored_new(int project_fd)
{
	struct setup_ignored *g = calloc(1, sizeof(*g));

	if (g)
		g->work = IGNORED_WORK_MAX;
	if (g && ignored_add(g, project_fd, ".git/info/exclude", 0) < 0)
		g = setup_ignored_free(g);
	return g;
}

struct setup_ignored *setup_ignored_free(struct setup_ignored *g)
{
	while (g && g->n > 0)
		setup_ignored_leave(g);
	free(g);
	return NULL;
}

int setup_ignored_enter(struct setup_ignored *g, int dir, size_t at)
{
	return ignored_add(g, dir, ".gitignore", at);
}

void setup_ignored_leave(struct setup_ignored *g)
{
	gitignore_done(&g->levels[--g->n].rules);
}

bool setup_ignored_has(struct setup_ignored *g, const char *path, bool is_dir)
{
	for (size_t i = g->n; g->work > 0 && i-- > 0;) {
		int r = g->levels[i].rules.n > 0 ? gitignore_match(&g->levels[i].rules,
								   path + g->levels[i].at,
								   is_dir, &g->work)
						 : -1;

		if (r >= 0)
			return r > 0;
	}
	return false;
}
