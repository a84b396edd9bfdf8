/* SPDX-License-Identifier: Apache-2.0 */
/* hide_project.c - hide the files that neither a command nor a setup may see */
#include "cli/work/hide_project.h"

#include <errno.h>
#include <string.h>

#include "base/sha256.h"
#include "base/strv.h"
#include "setup/plan.h"

static int hide_project_sum(struct work *w, const struct work_hidden *h)
{
	struct sha256 sum = SHA256_INIT;
	char digits[SHA256_DIGITS + 1];

	for (size_t i = 0; i < h->n; i++)
		sha256_text(&sum, h->paths[i]);
	sha256_text(&sum, "");
	for (size_t i = 0; i < h->n_cleaned; i++)
		sha256_text(&sum, h->cleaned[i]);
	sha256_end(&sum, digits);
	free(w->hidden);
	w->hidden = strdup(digits);
	return w->hidden ? 0 : -ENOMEM;
}

int hide_project(struct work *w, bool no_setup, char *const *given,
		 struct work_hidden *ret, struct warren_error *err)
{
	AUTO_STRV char **patterns = NULL;
	int r = no_setup ? 0 : setup_plan_hide(w->project_fd, &patterns, err);

	for (char *const *p = given; r == 0 && p && *p; p++)
		r = strv_add(&patterns, *p) < 0 ? error_errno(err, ENOMEM, "hide files")
						: 0;
	if (r == 0)
		r = work_hide(w, (const char *const *)patterns, ret, err);
	if (r == 0 && hide_project_sum(w, ret) < 0)
		r = error_errno(err, ENOMEM, "hide files");
	return r;
}
