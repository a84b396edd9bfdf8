/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz-dockerfile.c - any text is a plan, or an error with the name of the file */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "dockerfile/ignore.h"
#include "dockerfile/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_instruction(const struct dockerfile *d, const struct plan *p,
			      const struct dockerfile_instruction *i,
			      struct dockerfile_state *s)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct dockerfile_copy copy;
	struct dockerfile_run run;

	assert(i->args && i->line > 0 && i->text);
	if (dockerfile_apply(d, i, &p->args, s, &err) < 0)
		assert(strncmp(err.msg, "F:", 2) == 0);
	if ((i->kind == DOCKERFILE_COPY || i->kind == DOCKERFILE_ADD) &&
	    dockerfile_copy_parse(d, i, s, &copy, &err) == 0) {
		assert(copy.dest[0] == '/' && !strstr(copy.dest, "/../"));
		dockerfile_copy_done(&copy);
	}
	if (i->kind == DOCKERFILE_RUN &&
	    dockerfile_run_parse(d, i, &p->args, s, &run, &err) == 0) {
		assert(run.argv && run.argv[0]);
		dockerfile_run_done(&run);
	}
}

static void check_plan(const struct dockerfile *d, const struct plan *p)
{
	assert(p->n > 0 && p->target < p->n && p->stages[p->target].needed);
	for (size_t k = 0; k < p->n; k++) {
		struct dockerfile_state s = { 0 }, copy;

		for (size_t i = p->stages[k].from + 1; i < p->stages[k].end; i++)
			check_instruction(d, p, &d->v[i], &s);
		if (dockerfile_state_copy(&s, &copy) == 0)
			dockerfile_state_done(&copy);
		dockerfile_state_done(&s);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct ignore ignore;
	struct dockerfile d;
	struct plan p;

	/* Some steps take quadratic time, so long inputs are only slow. */
	if (size > 20000)
		return 0;
	if (ignore_parse((const char *)data, size, &ignore, &err) == 0) {
		(void)ignore_match(&ignore, "some/path/of/a.file");
		ignore_done(&ignore);
	}
	if (dockerfile_parse((const char *)data, size, "F", &d, &err) < 0) {
		assert(strncmp(err.msg, "F:", 2) == 0);
		return 0;
	}
	if (plan_make(&d, NULL, NULL, "linux/amd64", &p, &err) == 0) {
		check_plan(&d, &p);
		plan_done(&p);
	}
	dockerfile_done(&d);
	return 0;
}
