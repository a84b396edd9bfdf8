/* SPDX-License-Identifier: Apache-2.0 */
/* inputs_node.c - does an installation of packages for node run code of the project? */
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "setup/inputs.h"
#include "setup/tree.h"

/* --------------------------------------------------------- of the project */

/* Scripts that an installation runs. */
static const char *const inputs_lifecycle[] = {
	"preinstall", "install",     "postinstall",  "prepublish",         "preprepare",
	"prepare",    "postprepare", "dependencies", "pnpm:devPreinstall",
};

/* These only set up git's hooks, which are not part of a result. */
static const char *const inputs_harmless[] = { "husky", "husky install", "husky || true",
					       "is-ci || husky install" };

static bool inputs_is_harmless(const char *command)
{
	for (size_t i = 0; i < ARRAY_SIZE(inputs_harmless); i++)
		if (strcmp(command, inputs_harmless[i]) == 0)
			return true;
	return false;
}

static const char *inputs_node_scripts(const json_t *root)
{
	const json_t *scripts = json_object_get(root, "scripts");

	for (size_t i = 0; i < ARRAY_SIZE(inputs_lifecycle); i++) {
		const json_t *one = json_object_get(scripts, inputs_lifecycle[i]);
		const char *command = json_string_value(one);

		if (one && (!command || (command[0] && !inputs_is_harmless(command))))
			return "has a script that the installation runs";
	}
	return NULL;
}

const char *setup_inputs_node_code(int project_fd, const char *path)
{
	static const char *const local[] = {
		"\"file:", "\"link:", "\"portal:",           "\"patch:", "\"./",
		"\"../",   "\"~/",    "patchedDependencies", NULL
	};
	AUTO_FREE char *text = NULL, *same = NULL;
	const char *why;
	json_t *root, *part;

	text = setup_inputs_read(project_fd, "", path, &same);
	root = text ? json_loads(text, 0, NULL) : NULL;
	if (!json_is_object(root)) {
		json_decref(root);
		return "is not understood";
	}
	why = inputs_node_scripts(root);
	/* Paths in other members ("main", "exports") are not read by an installation. */
	for (size_t i = 0; !why && i < 6; i++) {
		static const char *const parts[] = {
			"dependencies",         "devDependencies", "peerDependencies",
			"optionalDependencies", "resolutions",     "overrides"
		};
		AUTO_FREE char *dumped = NULL;

		part = json_object_get(root, parts[i]);
		dumped = part ? json_dumps(part, JSON_COMPACT) : NULL;
		if (dumped && setup_inputs_find(dumped, local))
			why = "has dependencies that are directories or files";
	}
	if (!why && json_object_get(root, "pnpm"))
		why = strstr(text, "patchedDependencies") ? "has patched dependencies"
							  : NULL;
	json_decref(root);
	return why;
}

/* Configuration that makes the tool run code, or patch what it installs. */
static const char *inputs_node_config(int project_fd, const char *dir)
{
	static const struct {
		const char *file, *word;
	} configs[] = {
		{ "binding.gyp", NULL },
		{ ".pnpmfile.cjs", NULL },
		{ "pnpmfile.cjs", NULL },
		{ ".yarnrc.yml", "plugins" },
		{ ".yarnrc.yml", "yarnPath" },
		{ ".yarnrc", "yarn-path" },
		{ ".npmrc", "script-shell" },
		{ ".npmrc", "pnpmfile" },
		{ "pnpm-workspace.yaml", "patchedDependencies" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(configs); i++) {
		AUTO_FREE char *path = NULL, *text = NULL;

		if (!setup_inputs_has(project_fd, dir, configs[i].file))
			continue;
		text = setup_inputs_read(project_fd, dir, configs[i].file, &path);
		if (!configs[i].word || !text || strstr(text, configs[i].word))
			return configs[i].file;
	}
	return NULL;
}

/* -------------------------------------------------------- of dependencies */

/* Their scripts only build or fetch what is in their own directories. */
static const char *const inputs_node_local[] = {
	"@nestjs/core",
	"@parcel/watcher",
	"@sentry/cli",
	"@swc/core",
	"@tailwindcss/oxide",
	"bcrypt",
	"better-sqlite3",
	"bufferutil",
	"canvas",
	"chromedriver",
	"core-js",
	"core-js-bundle",
	"core-js-pure",
	"cpu-features",
	"cypress",
	"electron",
	"es5-ext",
	"esbuild",
	"fsevents",
	"geckodriver",
	"keytar",
	"lmdb",
	"msgpackr-extract",
	"node-pty",
	"node-sass",
	"protobufjs",
	"re2",
	"sharp",
	"sqlite3",
	"ssh2",
	"unrs-resolver",
	"utf-8-validate",
	"vue-demi",
	"workerd",
};

/* Their scripts read files of the project: schemas, configuration. */
static const char *const inputs_node_readers[] = {
	"\"@prisma/client\"",
	"\"prisma\"",
	"\"puppeteer\"",
	"\"nx\"",
	"\"msw\"",
	"\"lefthook\"",
	"\"simple-git-hooks\"",
	"\"yorkie\"",
	"\"nuxt\"",
	NULL,
};

/* Is the name at @name, which ends with a quote, that of a package of the list? */
static bool inputs_node_is_local(const char *name)
{
	size_t n = strcspn(name, "\"");

	for (size_t i = 0; i < ARRAY_SIZE(inputs_node_local); i++)
		if (strlen(inputs_node_local[i]) == n &&
		    strncmp(inputs_node_local[i], name, n) == 0)
			return true;
	return false;
}

/*
 * Does npm's lock file have a package with another script? It marks each with
 * "hasInstallScript", below a key such as "node_modules/a/node_modules/b". Those of the
 * project itself and of its members are seen in their package.json.
 */
static bool inputs_node_lock_runs(char *text)
{
	static const char below[] = "node_modules/";
	char *name = NULL, *at = text;

	for (char *mark; (mark = strstr(at, "\"hasInstallScript\"")); at = mark + 1) {
		*mark = '\0';
		for (char *p = at; (p = strstr(p, below)); p += sizeof(below) - 1)
			name = p + sizeof(below) - 1;
		*mark = '"';
		if (name && !inputs_node_is_local(name))
			return true;
	}
	return false;
}

/* Read a file that may be large; NULL: it cannot be read. */
static char *inputs_node_read_lock(int project_fd, const char *path)
{
	AUTO_CLOSE int fd = setup_tree_open(project_fd, path);
	AUTO_FREE char *text = NULL;
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > SETUP_FILE_MAX)
		return NULL;
	text = malloc((size_t)st.st_size + 1);
	n = text ? fd_read_all(fd, text, (size_t)st.st_size) : -1;
	if (n < 0)
		return NULL;
	text[n] = '\0';
	return strlen(text) == (size_t)n ? TAKE_PTR(text) : NULL;
}

/* Other lock files do not say which packages have scripts. */
static bool inputs_node_dependency(int project_fd, const char *manifest, const char *lock,
				   const char *dir)
{
	AUTO_FREE char *text = NULL, *same = NULL, *path = NULL;
	bool npm;

	/* A written command, which no lock file has chosen. */
	if (!lock && setup_inputs_has(project_fd, dir, "package-lock.json"))
		lock = "package-lock.json";
	npm = lock && (strcmp(lock, "package-lock.json") == 0 ||
		       strcmp(lock, "npm-shrinkwrap.json") == 0);

	text = npm ? NULL : setup_inputs_read(project_fd, "", manifest, &same);
	if (!npm)
		return !text || setup_inputs_find(text, inputs_node_readers);
	path = setup_tree_join(dir, lock);
	text = path ? inputs_node_read_lock(project_fd, path) : NULL;
	return !text || inputs_node_lock_runs(text);
}

int setup_inputs_node(int project_fd, const struct detect_row *row, const char *dir,
		      struct setup_step *s, struct warren_error *err)
{
	AUTO_FREE char *path = setup_tree_join(dir, row->file);
	AUTO_FREE char *text = NULL, *same = NULL;
	const char *why, *config;
	bool dependency;
	int r = 0;

	if (!path ||
	    setup_inputs_add_words(
		    project_fd, s, dir,
		    (const char *const[]){ "binding.gyp", ".pnpmfile.cjs", NULL }) < 0)
		return error_errno(err, ENOMEM, "plan the setup");
	why = setup_inputs_node_code(project_fd, path);
	config = inputs_node_config(project_fd, dir);
	dependency = !why && inputs_node_dependency(project_fd, path, row->lock, dir);
	text = setup_inputs_read(project_fd, "", path, &same);
	if (setup_inputs_has(project_fd, dir, "pnpm-workspace.yaml") ||
	    (text && strstr(text, "\"workspaces\"")))
		r = setup_inputs_set(s, SETUP_READS_NAMES | SETUP_READS_SCRIPTS, "", "",
				     err);
	if (r == 0 && why)
		r = setup_inputs_set(s, SETUP_READS_ALL, path, why, err);
	if (r == 0 && dependency)
		r = setup_inputs_set(s, SETUP_READS_ALL, path,
				     "has a dependency whose installation runs a script "
				     "that may read any file",
				     err);
	if (r == 0 && config)
		r = setup_inputs_set(s, SETUP_READS_ALL, config,
				     "makes the installation run code or apply patches",
				     err);
	return r;
}
