/* SPDX-License-Identifier: Apache-2.0 */
/* test-dockerignore.c - .dockerignore has docker's meaning */
#include "dockerfile/ignore.h"

#include <errno.h>

#include "lib/tap.h"

static bool ignores(const char *text, const char *path)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct ignore ignore;
	bool ignored;

	if (ignore_parse(text, strlen(text), &ignore, &err) < 0)
		TAP_FAIL("%s", err.msg);
	ignored = ignore_match(&ignore, path);
	ignore_done(&ignore);
	return ignored;
}

TEST(matches_like_the_examples_in_the_manual)
{
	static const char text[] = "# comment\n*/temp*\n*/*/temp*\ntemp?\n";

	OK(ignores(text, "somedir/temporary.txt"));
	OK(ignores(text, "somedir/temp"));
	OK(ignores(text, "somedir/subdir/temporary.txt"));
	OK(ignores(text, "tempa"));
	OK(!ignores(text, "temp"));
	OK(!ignores(text, "a/b/c/temp"));
	OK(!ignores(text, "# comment"));
	OK(ignores("**/*.go", "a.go"));
	OK(ignores("**/*.go", "x/y/a.go"));
	OK(!ignores("**/*.go", "x/y/a.c"));
	OK(!ignores("*.go", "x/a.go"));
}

TEST(the_last_matching_line_decides)
{
	OK(!ignores("*.md\n!README.md\n", "README.md"));
	OK(ignores("*.md\n!README.md\n", "other.md"));
	OK(ignores("*.md\n!README*.md\nREADME-secret.md\n", "README-secret.md"));
	OK(!ignores("*.md\n!README*.md\nREADME-secret.md\n", "README-x.md"));
	OK(!ignores("*.md\nREADME-secret.md\n!README*.md\n", "README-secret.md"));
}

TEST(a_pattern_for_a_directory_matches_its_files)
{
	OK(ignores("node_modules\n", "node_modules/a/b"));
	OK(ignores("/node_modules/\n", "node_modules/a"));
	OK(!ignores("node_modules\n", "x/node_modules/a"));
	OK(ignores("**/node_modules\n", "x/node_modules/a"));
	OK(!ignores("dir\n!dir/keep\n", "dir/keep"));
	OK(!ignores("dir\n!dir/keep\n", "dir/keep/inside"));
	OK(ignores("dir\n!dir/keep\n", "dir/other"));
	OK(ignores("*\n!src\n", "x"));
	OK(!ignores("*\n!src\n", "src/a.c"));
}

TEST(normalizes_patterns)
{
	OK(ignores("  ./a/../b  \n", "b"));
	OK(ignores("/b", "b"));
	OK(ignores("b\r\n", "b"));
	OK(!ignores(".\n/\n", "b"));
	OK(ignores("! x\nb", "b"));
	OK(ignores("[a-c]x\n", "bx"));
	OK(!ignores("[^a-c]x\n", "bx"));
	OK(ignores("a\\*\n", "a*"));
	OK(!ignores("a\\*\n", "ab"));
	OK(ignores("dir/**\n", "dir/x"));
	OK(!ignores("dir/**\n", "dir"));
	OK(ignores("a/**/b\n", "a/b"));
	OK(ignores("a/**/b\n", "a/x/y/b"));
}

TEST(refuses_invalid_files)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct ignore ignore;

	EQ(ignore_parse("a\n!\n", 4, &ignore, &err), -EINVAL);
	EQ(ignore_parse("a\0b", 3, &ignore, &err), -EINVAL);
}

/* Matching gives up on a pattern that backtracks too much. */
TEST(bounds_the_time_of_a_match)
{
	char glob[200] = "", path[300] = "";

	for (int i = 0; i < 60; i++)
		(void)strcat(glob, "**a");
	(void)memset(path, 'a', sizeof(path) - 1);
	path[sizeof(path) - 2] = 'b';
	OK(!ignore_glob(glob, path));
}

TEST_MAIN()
