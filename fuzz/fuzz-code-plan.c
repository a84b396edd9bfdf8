/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz-code-plan.c - any request to run code is planned or refused, and any glob is
 * matched in bounds
 * */
#include <stdlib.h>
#include <string.h>

#include "code/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Return the next word of the input, which ends with NUL. */
static const char *word(const char **at, const char *end)
{
	const char *w = *at;

	*at += *at < end ? strlen(w) + 1 : 0;
	return w < end ? w : "";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct code_settings settings = { 0 };
	AUTO_CODE_PLAN struct code_plan plan = { 0 };
	unsigned steps = CODE_GLOB_STEPS;
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_FREE char *copy = calloc(1, size + 1);
	const char *at = copy, *end = copy + size;
	const char *env[2] = { 0 }, *args[2] = { 0 }, *globs[2] = { 0 };
	struct code_file file = { .data = "" };
	struct code_request q = {
		.env = env, .args = args, .artifacts = globs, .files = &file, .n_files = 1
	};
	int r;

	if (!copy)
		return 0;
	(void)memcpy(copy, data, size);
	q.language = word(&at, end);
	file.name = word(&at, end);
	globs[0] = word(&at, end);
	env[0] = word(&at, end);
	args[0] = word(&at, end);
	q.limits.memory = strtoull(word(&at, end), NULL, 10);
	q.limits.disk = strtoull(word(&at, end), NULL, 10);
	q.code = at < end ? at : "";
	q.code_size = (size_t)(at < end ? end - at : 0);
	r = code_plan_make(&settings, &q, &plan, &err);
	if (r < 0 && (err.code != -r || !err.msg[0]))
		abort();
	if (r == 0 && (!plan.run || plan.files[0].name[0] == '/' ||
		       plan.limits.disk >= plan.limits.memory))
		abort();
	(void)code_glob_match(globs[0], file.name, &steps);
	return 0;
}
