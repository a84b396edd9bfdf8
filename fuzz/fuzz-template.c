/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-template.c - an argv template and its values: each value stays one word
 *
 * The input consists of lines: the template as JSON, a value for each of two placeholders
 * (an empty line: none), then the words of the command. Placeholders in a value are not
 * replaced, and the words of a command are not changed.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/macro.h"
#include "shim/command/template.h"

#define WORDS_MAX 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Does @a contain all @words, one after another? */
static bool has_run(const struct template_argv *a, const char *const *words, size_t n)
{
	for (size_t from = 0; from + n <= a->n; from++) {
		size_t i = 0;

		while (i < n && strcmp(a->words[from + i], words[i]) == 0)
			i++;
		if (i == n)
			return true;
	}
	return false;
}

static void check(const json_t *list, struct template_use *use, size_t n_words)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct template_argv made = { 0 };
	int r = template_fill(list, use, &made, &err);

	assert(r == 0 || (r == -err.code && err.msg[0]));
	assert(r < 0 || (made.n > 0 && !made.words[made.n]));
	for (size_t i = 0; i < made.n; i++)
		assert(made.words[i]);
	assert(r < 0 || !use->used_argv || has_run(&made, use->argv, n_words));
	for (size_t i = 0; r == 0 && i < use->n_holes; i++)
		assert(!use->holes[i].used || template_has(list, use->holes[i].name));
	template_done(&made);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_FREE char *text = strndup((const char *)data, size);
	const char *words[WORDS_MAX + 1] = { NULL };
	struct hole holes[] = { { .name = "id" }, { .name = "user" }, { .name = "tty" } };
	struct template_use use = {
		.name = "tool", .step = "exec", .holes = holes, .n_holes = 3
	};
	char *rest = text, *line = strsep(&rest, "\n");
	json_t *list = line ? json_loads(line, JSON_REJECT_DUPLICATES, NULL) : NULL;
	size_t n = 0;

	for (size_t i = 0; rest && i < 2; i++) {
		line = strsep(&rest, "\n");
		holes[i].value = line[0] ? line : NULL;
	}
	while (rest && n < WORDS_MAX)
		words[n++] = strsep(&rest, "\n");
	use.argv = n > 0 ? words : NULL;
	if (json_is_array(list))
		check(list, &use, n);
	json_decref(list);
	return 0;
}
