/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-template.c - argv templates: a value of a request never becomes an option of the
 * tool
 */
#include "shim/command/template.h"

#include <errno.h>

#include "base/macro.h"
#include "lib/tap.h"

/*
 * Fill one template with {x}; return the words separated by '|', or NULL if it is
 * refused.
 */
static const char *fill(const char *json, const char *x, bool option)
{
	static char text[4096];
	struct warren_error err = WARREN_ERROR_INIT;
	CLEANUP(template_done) struct template_argv argv = { 0 };
	struct hole holes[] = { { .name = "x", .value = x, .option = option },
				{ .name = "empty", .value = "" },
				{ .name = "none" } };
	static const char *const command[] = { "-c", "--", NULL };
	struct template_use use = { .name = "toy",
				    .step = "exec",
				    .holes = holes,
				    .n_holes = ARRAY_SIZE(holes),
				    .argv = command };
	json_t *list = json_loads(json, 0, NULL);
	int r;

	OK(list);
	r = template_fill(list, &use, &argv, &err);
	json_decref(list);
	if (r < 0) {
		EQ(r, -EINVAL);
		OK(err.msg[0]);
		return NULL;
	}
	text[0] = '\0';
	for (size_t i = 0; i < argv.n; i++) {
		(void)strcat(text, i ? "|" : "");
		(void)strcat(text, argv.words[i]);
	}
	return text;
}

static const char *const wicked[] = { "-v=/:/host", "--privileged", "-", "--", "-u0" };

TEST(no_value_begins_a_word_with_a_dash)
{
	for (size_t i = 0; i < ARRAY_SIZE(wicked); i++) {
		OK(!fill("[\"tool\", \"{x}\"]", wicked[i], false));
		OK(!fill("[\"tool\", \"-u\", \"{x}\"]", wicked[i], false));
		OK(!fill("[\"tool\", \"{x}:rest\"]", wicked[i], false));
		OK(!fill("[\"tool\", \"{empty}{x}\"]", wicked[i], false));
	}
	STREQ(fill("[\"tool\", \"{x}\"]", "fine", false), "tool|fine");
	STREQ(fill("[\"tool\", \"-u\", \"{x}\"]", "a-b", false), "tool|-u|a-b");
}

TEST(a_dash_is_allowed_inside_a_word_and_in_the_configuration)
{
	STREQ(fill("[\"tool\", \"--name={x}\"]", "-v", false), "tool|--name=-v");
	STREQ(fill("[\"tool\", \"{{{x}\"]", "-v", false), "tool|{-v");
	STREQ(fill("[\"tool\", \"{x}\"]", "-t", true), "tool|-t");
	STREQ(fill("[\"tool\", \"{argv}\"]", "x", false), "tool|-c|--");
	STREQ(fill("[\"tool\", \"-n\", \"{none}\", \"{x}\"]", "y", false), "tool|y");
}

TEST_MAIN()
