/* SPDX-License-Identifier: Apache-2.0 */
/* language.c - the programming languages that Warren supports without configuration */
#include "code/language.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/macro.h"
#include "base/strv.h"

#define LIST(...)                      \
	(const char *const[])          \
	{                              \
		__VA_ARGS__, (void *)0 \
	}

/*
 * Python does not buffer its output, so that no output is lost if the program is killed.
 * esbuild combines the program and the files that it imports into one ES module, so
 * top-level await works. The global require() is for code that expects it, and does not
 * collide with a declaration of that name.
 */
const struct code_language code_languages[] = {
	{ .name = "javascript",
	  .aliases = LIST("js", "node"),
	  .file = "main.js",
	  .module_file = "main.mjs",
	  .run = LIST("node|nodejs", "{file}"),
	  .warm = true,
	  .package = "nodejs" },
	{ .name = "typescript",
	  .aliases = LIST("ts"),
	  .file = "main.ts",
	  .compile = LIST(
		  "esbuild", "{file}", "--bundle", "--platform=node", "--format=esm",
		  "--packages=external", "--sourcemap=inline", "--sources-content=false",
		  "--log-level=warning",
		  ("--banner:js=import{createRequire as __warrenRequire}from'module';"
		   "globalThis.require=__warrenRequire(import.meta.url);"),
		  "--outfile=.program.mjs"),
	  .run = LIST("node|nodejs", "--enable-source-maps", ".program.mjs"),
	  .run_alone = LIST("node|nodejs", "--experimental-transform-types",
			    "--no-warnings", "--enable-source-maps", "{file}"),
	  .package = "esbuild" },
	{ .name = "python",
	  .aliases = LIST("py", "python3"),
	  .file = "main.py",
	  .run = LIST("python3|python", "{file}"),
	  .env = LIST("PYTHONUNBUFFERED=1", "PYTHONDONTWRITEBYTECODE=1"),
	  .warm = true,
	  .package = "python3" },
	{ .name = "bash",
	  .aliases = LIST("sh", "shell"),
	  .file = "main.sh",
	  .run = LIST("bash|sh", "{file}"),
	  .package = "bash" },
	{ .name = "go",
	  .aliases = LIST("golang"),
	  .file = "main.go",
	  .compile = LIST("go|/usr/local/go/bin/go", "build", "-o", ".program", "{file}"),
	  .run = LIST("./.program"),
	  /* Since version 1.20, Go also compiles its library, which does not fit into
	   * /tmp. */
	  .env = LIST("GOFLAGS=-mod=mod", "GOTOOLCHAIN=local",
		      "GOCACHE=/sandbox/.program.cache", "GOTMPDIR=/sandbox"),
	  .package = "golang-go" },
	{ .name = "rust",
	  .aliases = LIST("rs"),
	  .file = "main.rs",
	  .compile = LIST("rustc", "--color=never", "-o", ".program", "{file}"),
	  .run = LIST("./.program"),
	  .package = "rustc" },
	{ .name = "c",
	  .file = "main.c",
	  .compile = LIST("gcc|cc|clang", "-O1", "-o", ".program", "{file}", "-lm"),
	  .run = LIST("./.program"),
	  .package = "gcc libc6-dev" },
	{ .name = "c++",
	  .aliases = LIST("cpp", "cxx"),
	  .file = "main.cpp",
	  .compile = LIST("g++|c++|clang++", "-O1", "-o", ".program", "{file}"),
	  .run = LIST("./.program"),
	  .package = "g++" },
	{ .name = "java",
	  .file = "Main.java",
	  .run = LIST("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		      "-Xshare:auto", "{file}"),
	  .package = "default-jdk-headless" },
	{ .name = "ruby",
	  .aliases = LIST("rb"),
	  .file = "main.rb",
	  .run = LIST("ruby", "{file}"),
	  .package = "ruby" },
	{ .name = "perl",
	  .aliases = LIST("pl"),
	  .file = "main.pl",
	  .run = LIST("perl", "{file}"),
	  .package = "perl" },
	{ .name = "php",
	  .file = "main.php",
	  .run = LIST("php", "{file}"),
	  .opening = "<?php ",
	  .package = "php-cli" },
	{ .name = "r",
	  .file = "main.R",
	  .run = LIST("Rscript", "{file}"),
	  .package = "r-base-core" },
	{ .name = "lua",
	  .file = "main.lua",
	  .run = LIST("lua|lua5.4|lua5.3|luajit", "{file}"),
	  .package = "lua5.4" },
};
const size_t code_n_languages = ARRAY_SIZE(code_languages);

static bool language_is(const struct code_language *l, const char *name)
{
	return strcasecmp(l->name, name) == 0 ||
	       (l->aliases && strv_has_case(l->aliases, name));
}

static const struct code_language *
language_among(const struct code_language *rows, size_t n, const char *name, bool aliases)
{
	for (size_t i = 0; i < n; i++)
		if (aliases ? language_is(&rows[i], name)
			    : strcasecmp(rows[i].name, name) == 0)
			return &rows[i];
	return NULL;
}

/* A name takes precedence over an alias, so that a language can have a name that is an
 * alias of another. */
const struct code_language *code_language_find(const struct code_table *more,
					       const char *name)
{
	const struct code_language *l = NULL;

	for (int aliases = 0; !l && aliases < 2; aliases++) {
		l = more ? language_among(more->rows, more->n, name, aliases) : NULL;
		if (!l)
			l = language_among(code_languages, code_n_languages, name,
					   aliases);
	}
	/* An alias of a built-in language also leads to the language that replaces it. */
	return l && more && language_among(more->rows, more->n, l->name, false)
		       ? language_among(more->rows, more->n, l->name, false)
		       : l;
}

const struct code_language *code_language_at(const struct code_table *more, size_t i)
{
	for (size_t k = 0; k < code_n_languages; k++) {
		if (i-- > 0)
			continue;
		return code_language_find(more, code_languages[k].name);
	}
	for (size_t k = 0; more && k < more->n; k++)
		if (!language_among(code_languages, code_n_languages, more->rows[k].name,
				    false) &&
		    i-- == 0)
			return &more->rows[k];
	return NULL;
}

void code_language_list(const struct code_table *more, char *out, size_t size)
{
	const struct code_language *l;
	size_t len = 0;

	out[0] = '\0';
	for (size_t i = 0; (l = code_language_at(more, i)); i++) {
		int n = snprintf(out + len, size - len, "%s%s", i > 0 ? ", " : "",
				 l->name);

		if (n < 0 || (size_t)n >= size - len)
			return;
		len += (size_t)n;
	}
}

/* ------------------------------------------------------------------- checks */

static bool language_good_name(const char *s)
{
	size_t n = strlen(s);

	return n > 0 && n <= CODE_NAME_MAX &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789+#._-") == n;
}

static bool language_good_file(const char *s)
{
	size_t n = strlen(s);

	return n > 0 && n <= 64 && !strchr(s, '/') && strcmp(s, ".") != 0 &&
	       strcmp(s, "..") != 0;
}

static int language_check_step(const char *field, const char *const *step,
			       struct warren_error *err)
{
	size_t n = strv_len(step);
	char tool[256];

	if (n == 0 || n > CODE_STEP_MAX)
		return error_set(err, EINVAL, "%s: must have 1 to %d words", field,
				 CODE_STEP_MAX);
	for (size_t i = 0; code_step_tool(step[0], i, tool, sizeof(tool)); i++)
		if (!tool[0])
			return error_set(err, EINVAL, "%s: '%.80s' names no program",
					 field, step[0]);
	return 0;
}

int code_language_check(const struct code_language *row, struct warren_error *err)
{
	int r = 0;

	if (!language_good_name(row->name))
		return error_set(err, EINVAL,
				 "'%.40s' is not a name: use 1 to %d lower-case letters, "
				 "digits and any of + # . _ -",
				 row->name, CODE_NAME_MAX);
	for (size_t i = 0; row->aliases && row->aliases[i]; i++)
		if (!language_good_name(row->aliases[i]))
			return error_set(err, EINVAL, "aliases: '%.40s' is not a name",
					 row->aliases[i]);
	if (!row->file || !language_good_file(row->file))
		return error_set(err, EINVAL,
				 "file: must be a file name without a slash, such as "
				 "main.py");
	if (!row->run)
		return error_set(err, EINVAL,
				 "run: is missing; give the command that runs the "
				 "program, such as [python3, '{file}']");
	if (row->compile)
		r = language_check_step("compile", row->compile, err);
	return r < 0 ? r : language_check_step("run", row->run, err);
}

bool code_step_tool(const char *word, size_t i, char *out, size_t size)
{
	for (;; i--) {
		size_t n = strcspn(word, "|");

		if (i == 0) {
			(void)snprintf(out, size, "%.*s", (int)n, word);
			return true;
		}
		if (!word[n])
			return false;
		word += n + 1;
	}
}
