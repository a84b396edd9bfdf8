/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-code-plan.c - requests to run code become plans, or are refused with the name of
 * the field
 */
#include <errno.h>
#include <string.h>

#include "code/plan.h"

#include "lib/tap.h"

static const struct code_settings none = { 0 };

static int plan_of(const struct code_settings *s, struct code_request q,
		   struct code_plan *ret, struct warren_error *err)
{
	if (!q.language)
		q.language = "python";
	if (!q.code)
		q.code = "print(1)";
	if (!q.code_size)
		q.code_size = strlen(q.code);
	return code_plan_make(s, &q, ret, err);
}

/* Check that it is refused with @code, and that the error begins with @field. */
static void refused(struct code_request q, int code, const char *field)
{
	AUTO_CODE_PLAN struct code_plan p = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;

	EQ(plan_of(&none, q, &p, &err), -code);
	if (strncmp(err.msg, field, strlen(field)) != 0)
		TAP_FAIL("'%s' does not begin with '%s'", err.msg, field);
}

TEST(a_plan_has_defaults)
{
	AUTO_CODE_PLAN struct code_plan p = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	const char *args[] = { "a b", "", NULL };

	EQ(plan_of(&none, (struct code_request){ .language = "PY", .args = args }, &p,
		   &err),
	   0);
	STREQ(p.language->name, "python");
	STREQ(p.image, "host");
	STREQ(p.files[0].name, "main.py");
	STREQ(p.run[0], "python3|python");
	STREQ(p.run[1], "main.py");
	STREQ(p.run[2], "a b");
	STREQ(p.run[3], "");
	OK(!p.run[4] && !p.compile && !p.artifacts);
	EQ(p.limits.timeout_ms, 30000);
	EQ(p.limits.memory, UINT64_C(256) << 20);
	EQ(p.limits.disk, UINT64_C(64) << 20);
	EQ(p.limits.pids, 50);
	EQ(p.max_output, UINT64_C(1) << 20);
}

TEST(every_language_has_a_plan)
{
	for (size_t i = 0; i < code_n_languages; i++) {
		AUTO_CODE_PLAN struct code_plan p = { 0 };
		struct warren_error err = WARREN_ERROR_INIT;
		const struct code_language *l = &code_languages[i];

		EQ(code_language_check(l, &err), 0);
		EQ(plan_of(&none, (struct code_request){ .language = l->name }, &p, &err),
		   0);
		OK(p.language == l);
		EQ(!p.compile, !l->compile);
		for (size_t k = 0; l->aliases && l->aliases[k]; k++)
			OK(code_language_find(NULL, l->aliases[k]) == l);
	}
}

TEST(an_error_names_the_invalid_field)
{
	const char *const no_equals[] = { "A", NULL }, *const slash[] = { "out/", NULL };
	const char *const absolute[] = { "/etc/*", NULL };
	struct code_file own = { "main.py", "", 0 }, up = { "a/../b", "", 0 },
			 abs = { "/a", "", 0 }, empty = { "a//b", "", 0 };
	struct code_file both[] = { { "a", "", 0 }, { "a/b", "", 0 } };

	refused((struct code_request){ .language = "cobol" }, EINVAL,
		"/language: 'cobol'");
	refused((struct code_request){ .env = no_equals }, EINVAL, "/env: ");
	refused((struct code_request){ .files = &own, .n_files = 1 }, EINVAL, "/files: ");
	refused((struct code_request){ .files = &up, .n_files = 1 }, EINVAL, "/files: ");
	refused((struct code_request){ .files = &abs, .n_files = 1 }, EINVAL, "/files: ");
	refused((struct code_request){ .files = &empty, .n_files = 1 }, EINVAL,
		"/files: ");
	refused((struct code_request){ .files = both, .n_files = 2 }, EINVAL, "/files: ");
	refused((struct code_request){ .artifacts = slash }, EINVAL, "/artifacts/0: ");
	refused((struct code_request){ .artifacts = absolute }, EINVAL, "/artifacts/0: ");
	refused((struct code_request){ .limits.memory = 1 }, EINVAL, "/limits/memory: ");
	refused((struct code_request){ .limits.disk = 1 }, EINVAL, "/limits/disk: ");
	refused((struct code_request){ .limits.disk = UINT64_C(1) << 30 }, EINVAL,
		"/limits/disk: ");
	refused((struct code_request){ .limits.timeout_ms = 3600001 }, EPERM,
		"/timeout_ms: ");
	refused((struct code_request){ .max_output = UINT64_C(1) << 40 }, EPERM,
		"/max_output: ");
}

TEST(the_error_lists_the_languages)
{
	AUTO_CODE_PLAN struct code_plan p = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;

	EQ(plan_of(&none, (struct code_request){ .language = "x" }, &p, &err), -EINVAL);
	for (size_t i = 0; i < code_n_languages; i++)
		OK(strstr(err.msg, code_languages[i].name) != NULL);
}

TEST(a_maximum_applies_to_requests_and_to_the_default)
{
	struct code_settings s = { .max = { .memory = UINT64_C(64) << 20, .pids = 10 } };
	AUTO_CODE_PLAN struct code_plan p = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	struct code_request more = { .limits.pids = 11 };

	EQ(plan_of(&s, (struct code_request){ 0 }, &p, &err), 0);
	EQ(p.limits.memory, UINT64_C(64) << 20);
	EQ(p.limits.disk, UINT64_C(32) << 20);
	EQ(p.limits.pids, 10);
	code_plan_done(&p);
	EQ(plan_of(&s, more, &p, &err), -EPERM);
	OK(strncmp(err.msg, "/limits/pids: ", 14) == 0);
}

TEST(languages_in_the_configuration_replace_or_extend_the_defaults)
{
	const char *const run[] = { "pypy3", "{file}", NULL };
	const struct code_language rows[] = {
		{ .name = "python", .file = "p.py", .run = run, .image = "pypy" },
		{ .name = "awk", .file = "p.awk", .run = run },
	};
	const struct code_image images[] = { { "awk", "busybox" } };
	struct code_settings s = { .table = { rows, 2 },
				   .images = images,
				   .n_images = 1 };
	AUTO_CODE_PLAN struct code_plan p = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	char list[400];

	EQ(plan_of(&s, (struct code_request){ .language = "py" }, &p, &err), 0);
	STREQ(p.image, "pypy");
	STREQ(p.run[0], "pypy3");
	STREQ(p.run[1], "p.py");
	code_plan_done(&p);
	EQ(plan_of(&s, (struct code_request){ .language = "awk" }, &p, &err), 0);
	STREQ(p.image, "busybox");
	code_language_list(&s.table, list, sizeof(list));
	OK(strstr(list, "awk") && strstr(list, "python"));
	EQ(code_language_check(&(struct code_language){ .name = "A" }, &err), -EINVAL);
	EQ(code_language_check(&(struct code_language){ .name = "a", .file = "a/b" },
			       &err),
	   -EINVAL);
}

TEST(javascript_modules_and_php_opening_tags_are_recognised)
{
	static const struct {
		const char *code, *file;
	} cases[] = {
		{ "import fs from 'fs'\n", "main.mjs" },
		{ "const x = await f()\n", "main.mjs" },
		{ "\nexport const a = 1\n", "main.mjs" },
		{ "import('fs')\n", "main.js" },
		{ "async function f() {\n  await g()\n}\n", "main.js" },
		{ "const fs = require('fs')\n", "main.js" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_CODE_PLAN struct code_plan p = { 0 };
		struct warren_error err = WARREN_ERROR_INIT;
		struct code_request q = { .language = "js", .code = cases[i].code };

		EQ(plan_of(&none, q, &p, &err), 0);
		STREQ(p.files[0].name, cases[i].file);
	}
	for (int opened = 0; opened < 2; opened++) {
		AUTO_CODE_PLAN struct code_plan p = { 0 };
		struct warren_error err = WARREN_ERROR_INIT;
		struct code_request q = { .language = "php",
					  .code = opened ? "<?php echo 1;" : "echo 1;" };

		EQ(plan_of(&none, q, &p, &err), 0);
		EQ(p.files[0].size, 13);
		OK(memcmp(p.files[0].data, "<?php echo 1;", 13) == 0);
	}
}

TEST(globs_match_paths)
{
	static const struct {
		const char *glob, *path;
		bool match;
	} cases[] = {
		{ "*.txt", "a.txt", true },
		{ "*.txt", "d/a.txt", false },
		{ "**", "d/e/a.txt", true },
		{ "**/*.txt", "a.txt", true },
		{ "**/b", "ab", false },
		{ "**/b", "x/b", true },
		{ "d/**", "d/e/f", true },
		{ "d/**", "e/d/f", false },
		{ "?", "\xc3\xa9", true },
		{ "?", "/", false },
		{ "[a-c]x", "bx", true },
		{ "[!a-c]x", "bx", false },
		{ "[!a-c]x", "dx", true },
		{ "[", "[", true },
		{ "\\*", "*", true },
		{ "\\*", "a", false },
		{ "a/**/b", "a/b", true },
		{ "a/**/b", "a/x/y/b", true },
		{ "", "", true },
		{ "a", "", false },
		{ "*a*a*a*b", "aaaaaaa", false },
		{ "[]]", "]", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		unsigned steps = CODE_GLOB_STEPS;

		if (code_glob_match(cases[i].glob, cases[i].path, &steps) !=
		    (int)cases[i].match)
			TAP_FAIL("'%s' and '%s'", cases[i].glob, cases[i].path);
	}
}

/* Is @path an artifact of a program in C? */
static int wanted(const char *glob, const char *path)
{
	AUTO_CODE_PLAN struct code_plan p = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	const char *globs[] = { glob, NULL };

	EQ(plan_of(&none, (struct code_request){ .language = "c", .artifacts = globs },
		   &p, &err),
	   0);
	return code_plan_wants(&p, path);
}

TEST(matching_a_glob_takes_bounded_time)
{
	char path[1001], glob[601];

	(void)memset(path, 'a', sizeof(path) - 1);
	path[1000] = '\0';
	for (size_t i = 0; i < 600; i += 2)
		(void)memcpy(glob + i, "*?", 2);
	glob[600] = '\0';
	EQ(wanted(glob, path), -E2BIG);
	/* Common globs are far below the limit, even for the longest paths. */
	EQ(wanted("**/*.txt", path), 0);
	EQ(wanted("**/*a", path), 1);
	EQ(wanted("out/**/x*", path), 0);
}

TEST(the_program_itself_is_not_an_artifact)
{
	EQ(wanted("**", "main.c"), 0);
	EQ(wanted("**", ".program"), 0);
	EQ(wanted("**", ".program.txt"), 1);
	EQ(wanted("**", ".programs/x"), 1);
	EQ(wanted("**", "d/.program"), 1);
	EQ(wanted("**", "d/main.c"), 1);
	EQ(wanted("**", ".program.cache/x"), 1); /* this name is hidden only for Go */
}

TEST(a_file_cannot_have_the_name_of_the_compiled_program)
{
	const struct code_file made = { ".program", "", 0 },
			       other = { ".program.txt", "", 0 },
			       module = { ".program.mjs", "", 0 };
	AUTO_CODE_PLAN struct code_plan p = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;

	refused((struct code_request){ .language = "c", .files = &made, .n_files = 1 },
		EINVAL, "/files: '.program' ");
	refused((struct code_request){ .language = "ts", .files = &module, .n_files = 1 },
		EINVAL, "/files: '.program.mjs' ");
	EQ(plan_of(&none,
		   (struct code_request){
			   .language = "c", .files = &other, .n_files = 1 },
		   &p, &err),
	   0);
	code_plan_done(&p);
	EQ(plan_of(&none, (struct code_request){ .files = &made, .n_files = 1 }, &p,
		   &err),
	   0);
}

TEST(a_missing_tool_is_named_with_its_reason)
{
	AUTO_CODE_PLAN struct code_plan p = { 0 };
	struct warren_error err = WARREN_ERROR_INIT;
	const char *env[] = { "PATH=/nowhere", NULL };

	EQ(plan_of(&none, (struct code_request){ .env = env }, &p, &err), 0);
	EQ(code_plan_missing(&p, "python3|python", &err), -ENOENT);
	STREQ(err.msg, "/env: python needs 'python3' or 'python', which is not in the "
		       "PATH that the request sets");
	code_plan_done(&p);
	EQ(plan_of(&none, (struct code_request){ .image = "i" }, &p, &err), 0);
	EQ(code_plan_missing(&p, "python3", &err), -ENOENT);
	STREQ(err.msg, "/language: python needs 'python3', which the image 'i' does not "
		       "have; on Debian, install python3");
}

TEST(a_step_may_name_several_tools)
{
	char tool[16];

	OK(code_step_tool("gcc|cc", 0, tool, sizeof(tool)));
	STREQ(tool, "gcc");
	OK(code_step_tool("gcc|cc", 1, tool, sizeof(tool)));
	STREQ(tool, "cc");
	OK(!code_step_tool("gcc|cc", 2, tool, sizeof(tool)));
}

TEST_MAIN()
