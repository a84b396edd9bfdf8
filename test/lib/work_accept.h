/* SPDX-License-Identifier: Apache-2.0 */
/* work_accept.h - accept and reject changes of a test's work, by their paths */
#ifndef TEST_WORK_ACCEPT_H
#define TEST_WORK_ACCEPT_H

#include "work/accept.h"

#include "lib/work.h"

static struct accept_result result;

/* Is @path among the names in @paths, which are separated by spaces? NULL: all are. */
static inline bool wanted(const char *paths, const char *path)
{
	const char *at = paths ? strstr(paths, path) : NULL;
	size_t n = strlen(path);

	while (at && ((at > paths && at[-1] != ' ') || (at[n] && at[n] != ' ')))
		at = strstr(at + 1, path);
	return !paths || at;
}

static inline int decide(struct work *w, const char *paths, unsigned flags,
			 const struct accept_options *o)
{
	AUTO_CHANGES struct changes c = { 0 };
	struct accept_item *items;
	size_t n = 0;
	int r;

	if (changes_list(w, flags, &c, &err) < 0)
		TAP_FAIL("%s", err.msg);
	items = calloc(c.n + 1, sizeof(*items));
	OK(items);
	for (size_t i = 0; i < c.n; i++)
		if (wanted(paths, c.v[i].path))
			items[n++].change = &c.v[i];
	accept_result_done(&result);
	r = o ? accept_changes(w, items, n, o, &result, &err)
	      : reject_changes(w, items, n, &err);
	free(items);
	return r;
}

/* Accept these paths, or all. */
__attribute__((unused)) static int accept_paths(struct work *w, const char *paths)
{
	return decide(w, paths, 0, &(struct accept_options){ 0 });
}

__attribute__((unused)) static int reject_paths(struct work *w, const char *paths)
{
	return decide(w, paths, 0, NULL);
}

/* The paths that are left, each after a space. */
__attribute__((unused)) static const char *left(struct work *w)
{
	static char text[8192];
	AUTO_CHANGES struct changes c = { 0 };
	size_t n = 0;

	text[0] = '\0';
	if (changes_list(w, 0, &c, &err) < 0)
		TAP_FAIL("%s", err.msg);
	for (size_t i = 0; i < c.n; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%c %s|",
				      "AMDRXT"[c.v[i].kind], c.v[i].path);
	return text;
}

/* An accept must leave no temporary files in the project. */
__attribute__((unused)) static void clean(const struct work *w)
{
	shell("test -z \"$(ls -A p | grep '^.warren-')\" && test ! -e '%s/journal' -a "
	      "! -e '%s/journal.done'",
	      w->dir, w->dir);
}

#endif /* TEST_WORK_ACCEPT_H */
