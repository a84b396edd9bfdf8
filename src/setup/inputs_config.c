/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inputs_config.c - configuration of tools in a directory or above it
 *
 * Package managers also read configuration that no manifest names, and some of it names
 * programs and files of the project: a program that cargo calls instead of the compiler,
 * a script that node loads first. Such configuration always counts for the result. If it
 * has one of the words that can name a program or a file, all files of the project count.
 */
#include <errno.h>
#include <string.h>

#include "base/strv.h"
#include "setup/inputs.h"
#include "setup/steps.h"
#include "setup/tree.h"

static const struct {
	const char *name;
	const char *words[12]; /* "": it always names some */
} config_files[] = {
	{ ".cargo/config.toml",
	  { "rustc", "rustdoc", "linker", "runner", "include", "path", "credential",
	    "directory", "env", "git-fetch" } },
	{ ".cargo/config",
	  { "rustc", "rustdoc", "linker", "runner", "include", "path", "credential",
	    "directory", "env", "git-fetch" } },
	{ "rust-toolchain.toml", { "path" } },
	{ "rust-toolchain", { "path" } },
	{ ".mvn/extensions.xml", { "" } },
	{ ".mvn/jvm.config", { "" } },
	{ ".mvn/maven.config", { "" } },
	{ ".npmrc",
	  { "node-options", "script-shell", "pnpmfile", "git=", "git =", "shell", "./",
	    "../", "prefix", "onload" } },
	{ ".yarnrc", { "yarn-path", "script-shell", "./", "../", "env" } },
	{ ".yarnrc.yml", { "yarnPath", "plugins", "./", "../", "Shell", "path" } },
	{ ".pnpmfile.cjs", { "" } },
	{ "pnpmfile.cjs", { "" } },
	{ "uv.toml", { "path", "file:", "./", "../", "find-links", "index" } },
	{ "poetry.toml", { "path", "./", "../" } },
	{ "pip.conf", { "file:", "./", "../", "find-links", "index" } },
	{ ".bundle/config", { "PATH", "./", "../", "LOCAL" } },
	{ "bunfig.toml", { "preload", "./", "../" } },
};

static bool config_names_files(const char *text, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n && words[i]; i++)
		if (strstr(text, words[i]))
			return true;
	return false;
}

static int config_file(int project_fd, const char *dir, size_t at, struct setup_step *s,
		       struct warren_error *err)
{
	AUTO_FREE char *text = NULL, *path = NULL;

	if (!setup_inputs_has(project_fd, dir, config_files[at].name))
		return 0;
	text = setup_inputs_read(project_fd, dir, config_files[at].name, &path);
	if (!path || strv_add(&s->files, path) < 0)
		return error_errno(err, ENOMEM, "plan the setup");
	if (text && !config_names_files(text, config_files[at].words,
					ARRAY_SIZE(config_files[at].words)))
		return 0;
	return setup_inputs_set(s, SETUP_READS_ALL, path,
				"may name programs or files of the project", err);
}

int setup_inputs_config(int project_fd, const char *dir, struct setup_step *s,
			struct warren_error *err)
{
	AUTO_FREE char *at = strdup(dir);
	int r = at ? 0 : error_errno(err, ENOMEM, "plan the setup");

	while (r == 0) {
		char *slash = strrchr(at, '/');

		for (size_t i = 0; r == 0 && i < ARRAY_SIZE(config_files); i++)
			r = config_file(project_fd, at, i, s, err);
		if (!at[0])
			break;
		*(slash ? slash : at) = '\0';
	}
	return r;
}
