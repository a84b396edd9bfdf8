/* SPDX-License-Identifier: Apache-2.0 */
/* test-setup-detect.c - projects are recognised by their manifests */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "setup/detect.h"
#include "setup/plan.h"

#include "lib/tap.h"

static struct warren_error err;
static char root[] = "/tmp/warren-setup-XXXXXX";

/* Create a project with these files, each "path" or "path=contents"; NULL ends the list.
 */
static int project(const char *const *files)
{
	if (!mkdtemp(root))
		TAP_FAIL("mkdtemp");
	for (; *files; files++) {
		const char *equals = strchr(*files, '=');
		size_t n = equals ? (size_t)(equals - *files) : strlen(*files);
		char path[512], *slash;
		FILE *f;

		(void)snprintf(path, sizeof(path), "%s/%.*s", root, (int)n, *files);
		slash = strrchr(path, '/');
		*slash = '\0';
		EQ(fd_make_dirs(path, 0755), 0);
		*slash = '/';
		f = fopen(path, "we");
		OK(f != NULL);
		(void)fputs(equals ? equals + 1 : "{}\n", f);
		(void)fclose(f);
	}
	return open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void remove_project(int fd)
{
	char command[64];

	(void)close(fd);
	(void)snprintf(command, sizeof(command), "rm -rf %s", root);
	EQ(system(command), 0);
	(void)strcpy(strrchr(root, '-') + 1, "XXXXXX");
}

/* The titles and directories of all steps: "npm ci@web; go mod download@". */
static const char *steps_of(const char *const *files)
{
	static char text[4096];
	struct setup_plan p;
	int fd = project(files);

	text[0] = '\0';
	if (setup_plan_make(fd, &(struct setup_options){ .project = root }, &p, &err) < 0)
		TAP_FAIL("%s", err.msg);
	for (size_t i = 0; i < p.steps.n; i++)
		(void)sprintf(text + strlen(text), "%s%s@%s", i ? "; " : "",
			      p.steps.v[i].title, p.steps.v[i].dir);
	EQ(p.source, p.steps.n > 0 ? SETUP_DETECTED : SETUP_NONE);
	setup_plan_done(&p);
	remove_project(fd);
	return text;
}

#define STEPS(...) steps_of((const char *const[]){ __VA_ARGS__, NULL })

static const char *files_of(const char *const *files)
{
	static char text[4096];
	struct setup_plan p;
	int fd = project(files);

	text[0] = '\0';
	if (setup_plan_make(fd, &(struct setup_options){ .project = root }, &p, &err) < 0)
		TAP_FAIL("%s", err.msg);
	for (char **v = p.files; v && *v; v++)
		(void)sprintf(text + strlen(text), "%s%s", v > p.files ? " " : "", *v);
	setup_plan_done(&p);
	remove_project(fd);
	return text;
}

#define FILES(...) files_of((const char *const[]){ __VA_ARGS__, NULL })

#define KEY_OF(p, i, w, h) \
	(&(struct setup_key_of){ .project = p, .image_id = i, .workdir = w, .hidden = h })

TEST(each_kind)
{
	STREQ(STEPS("requirements.txt"), "pip install -r requirements.txt@");
	STREQ(STEPS("pyproject.toml=[project]\nname = 'x'\n"), "pip install -e .@");
	STREQ(STEPS("pyproject.toml=[project]\n", "uv.lock"), "uv sync --frozen@");
	STREQ(STEPS("pyproject.toml=[tool.poetry]\n"), "poetry install@");
	STREQ(STEPS("package.json"), "npm install@");
	STREQ(STEPS("package.json", "package-lock.json"), "npm ci@");
	STREQ(STEPS("package.json", "yarn.lock"), "yarn install@");
	STREQ(STEPS("package.json", "pnpm-lock.yaml"), "pnpm install --frozen-lockfile@");
	STREQ(STEPS("Cargo.toml"), "cargo fetch@");
	STREQ(STEPS("Cargo.toml", "Cargo.lock"), "cargo fetch --locked@");
	STREQ(STEPS("go.mod"), "go mod download@");
	STREQ(STEPS("Gemfile"), "bundle install@");
	STREQ(STEPS("pom.xml"), "mvn dependency:go-offline@");
	STREQ(STEPS("build.gradle"), "gradle dependencies@");
	STREQ(STEPS("build.gradle.kts"), "gradle dependencies@");
	STREQ(STEPS("composer.json"), "composer install@");
	STREQ(STEPS("mix.exs"), "mix deps.get@");
	STREQ(STEPS("CMakeLists.txt"), "cmake -S . -B build@");
}

TEST(nothing_to_do)
{
	STREQ(STEPS("README", "src/main.c", "package.json.orig"), "");
	/* Only the configuration of tools. */
	STREQ(STEPS("pyproject.toml=[tool.black]\nline-length = 100\n"), "");
}

TEST(a_table_with_all_fields)
{
	for (size_t i = 0; i < n_detect_table; i++) {
		const struct detect_row *row = &detect_table[i];

		OK(row->name && row->group && row->file && row->title);
		OK(row->run && row->verify);
	}
}

TEST(a_monorepo)
{
	STREQ(STEPS("go.mod", "web/package.json", "web/package-lock.json",
		    "services/api/requirements.txt", "a/b/c/Cargo.toml"),
	      "go mod download@; cargo fetch@a/b/c; pip install -r "
	      "requirements.txt@services/api; npm ci@web");
	/* Too deep, ignored, or a copy. */
	STREQ(STEPS("a/b/c/d/Cargo.toml"), "");
	STREQ(STEPS("node_modules/x/package.json", "vendor/y/go.mod", ".hidden/go.mod"),
	      "");
	STREQ(STEPS(".gitignore=# comment\n/gen\n*.tmp\n!keep.tmp\n", "gen/go.mod",
		    "x.tmp/go.mod", "keep.tmp/go.mod", "sub/gen/go.mod"),
	      "go mod download@keep.tmp; go mod download@sub/gen");
}

TEST(members_of_a_workspace)
{
	STREQ(STEPS("package.json={\"workspaces\": [\"packages/*\"]}",
		    "package-lock.json", "packages/a/package.json"),
	      "npm ci@");
	STREQ(STEPS("package.json", "package-lock.json", "packages/a/package.json"),
	      "npm ci@; npm install@packages/a");
	STREQ(STEPS("Cargo.toml=[workspace]\n", "Cargo.lock", "crates/a/Cargo.toml"),
	      "cargo fetch --locked@");
	STREQ(STEPS("pom.xml", "core/pom.xml"), "mvn dependency:go-offline@");
	STREQ(FILES("Cargo.toml=[workspace]\n", "Cargo.lock", "crates/a/Cargo.toml"),
	      "Cargo.lock Cargo.toml crates/a/Cargo.toml");
}

TEST(included_requirements)
{
	STREQ(FILES("requirements.txt=-r deps/base.txt\nflask\n", "deps/base.txt=x\n",
		    "other.txt"),
	      "deps/base.txt requirements.txt");
	STREQ(FILES("requirements.txt=-r base.in\n--constraint=limits.in # why\n",
		    "base.in=-r requirements.txt\n", "limits.in=x\n", "other.in=y\n"),
	      "base.in limits.in requirements.txt");
}

/* Does @contents in the file @path change the key? */
static bool key_depends(const char *const *files, const char *path, const char *contents)
{
	int fd = project(files);
	struct setup_plan p, q;
	struct setup_key one, two;
	struct setup_options o = { .project = root, .no_script = false };

	EQ(setup_plan_make(fd, &o, &p, &err), 0);
	OK(p.steps.n > 0);
	EQ(setup_plan_key(fd, &p, KEY_OF("/p", "image", "/w", "none"), &one, &err), 0);
	EQ(setup_plan_key(fd, &p, KEY_OF("/p", "image", "/w", "none"), &two, &err), 0);
	STREQ(one.key, two.key);
	(void)close(openat(fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
	EQ(fd_write_file_at(fd, path, contents), 0);
	EQ(setup_plan_make(fd, &o, &q, &err), 0);
	EQ(setup_plan_key(fd, &q, KEY_OF("/p", "image", "/w", "none"), &two, &err), 0);
	setup_plan_done(&p);
	setup_plan_done(&q);
	remove_project(fd);
	return strcmp(one.key, two.key) != 0;
}

#define DEPENDS(path, ...) \
	key_depends((const char *const[]){ __VA_ARGS__, NULL }, path, "changed\n")

TEST(gitignore_files_are_part_of_the_key)
{
	OK(DEPENDS(".gitignore", "go.mod"));
	OK(DEPENDS(".git/info/exclude", "go.mod", ".git/info/x"));
	OK(DEPENDS("a/.gitignore", "a/b/go.mod"));
	OK(DEPENDS("a/b/.gitignore", "a/b/go.mod"));
	OK(!DEPENDS("a/c/.gitignore", "a/b/go.mod", "a/c/x"));
	OK(!DEPENDS("a/.gitignore", "go.mod", "a/x"));
}

TEST(scripts_of_an_installation_are_in_the_key)
{
	OK(DEPENDS(
		"scripts/x.js", "scripts/x.js",
		"package.json={\"scripts\": {\"postinstall\": \"node scripts/x.js\"}}"));
	OK(DEPENDS("lib/y.js", "lib/y.js", "package-lock.json",
		   "package.json={\"scripts\": {\"prepare\": \"npm run build\"}}"));
	/* What only other commands run. */
	OK(!DEPENDS("lib/y.js", "lib/y.js",
		    "package.json={\"scripts\": {\"test\": \"node lib/y.js\"}}"));
	OK(!DEPENDS("lib/y.js", "lib/y.js",
		    "package.json={\"scripts\": {\"prepare\": \"husky\"}}"));
	/* What .gitignore excludes is a result. */
	OK(!DEPENDS("out/y.js", "out/y.js", ".gitignore=out/\n",
		    "package.json={\"scripts\": {\"install\": \"node out/y.js\"}}"));
	OK(DEPENDS("binding.gyp", "package.json", "binding.gyp"));
	OK(DEPENDS("src/a.cc", "package.json", "binding.gyp", "src/a.cc"));
	OK(DEPENDS("x/index.js", "x/index.js",
		   "package.json={\"dependencies\": {\"x\": \"file:x\"}}"));
	OK(!DEPENDS("x/index.js", "x/index.js",
		    "package.json={\"dependencies\": {\"x\": \"^1.0\"}}"));
	/* Members of a workspace, however deep. */
	OK(DEPENDS("a/b/c/d/e/package.json", "package.json={\"workspaces\": [\"a/**\"]}",
		   "a/b/c/d/e/package.json"));
	OK(!DEPENDS("a/b/c/d/e/index.js", "package.json={\"workspaces\": [\"a/**\"]}",
		    "a/b/c/d/e/package.json", "a/b/c/d/e/index.js"));
	OK(!DEPENDS("a/b/c/d/e/new", "package.json={\"workspaces\": [\"a/**\"]}",
		    "a/b/c/d/e/package.json"));
	OK(DEPENDS("a/b/c/d/e/x.js", "package.json={\"workspaces\": [\"a/**\"]}",
		   "a/b/c/d/e/package.json={\"scripts\": {\"install\": \"node x\"}}",
		   "a/b/c/d/e/x.js"));
}

#define LOCK(packages) "package-lock.json={\"packages\": {" packages "}}"
#define LOCKED(name) \
	"\"node_modules/" name "\": {\"version\": \"1\", \"hasInstallScript\": true}"

TEST(scripts_of_dependencies_are_in_the_key)
{
	OK(DEPENDS("schema", "schema", "package.json", LOCK(LOCKED("@prisma/client"))));
	OK(!DEPENDS("schema", "schema", "package.json", LOCK(LOCKED("esbuild"))));
	OK(!DEPENDS("schema", "schema", "package.json",
		    LOCK("\"node_modules/unknown\": {}")));
	OK(DEPENDS("schema", "schema", "package.json",
		   LOCK(LOCKED("esbuild") ", " LOCKED("a/node_modules/unknown"))));
	OK(!DEPENDS(
		"schema", "schema", "package.json",
		LOCK(LOCKED("unknown/node_modules/esbuild") ", \"node_modules/x\": {}")));
	/* That of the project itself is in package.json. */
	OK(!DEPENDS("schema", "schema", "package.json",
		    LOCK("\"\": {\"hasInstallScript\": true}")));
	OK(DEPENDS("schema", "schema", "yarn.lock",
		   "package.json={\"dependencies\": {\"prisma\": \"1\"}}"));
	OK(!DEPENDS("schema", "schema", "yarn.lock",
		    "package.json={\"dependencies\": {\"esbuild\": \"1\"}}"));
}

TEST(paths_in_requirements_are_in_the_key)
{
	OK(DEPENDS("lib/setup.py", "requirements.txt=-e ./lib\n", "lib/setup.py"));
	OK(DEPENDS("lib/x.py", "requirements.txt=./lib\n", "lib/x.py"));
	OK(DEPENDS("wheels/x.whl", "requirements.txt=-f wheels\nx\n", "wheels/x.whl"));
	OK(DEPENDS("lib/x.py", "requirements.txt=x @ file:///w/lib\n", "lib/x.py"));
	OK(!DEPENDS("lib/x.py", "requirements.txt=x @ https://example.org/x.whl\ny==1\n",
		    "lib/x.py"));
	OK(!DEPENDS("lib/x.py", "requirements.txt=flask>=1 # ./lib\n", "lib/x.py"));
	/* Included files, relative to the file that includes them. */
	OK(DEPENDS("deps/more.txt", "requirements.txt=-r deps/base.txt\n",
		   "deps/base.txt=-c more.txt\n", "deps/more.txt"));
	OK(DEPENDS("lib/x.py", "requirements.txt=-rdeps/base.txt\n",
		   "deps/base.txt=-e ../lib\n", "lib/x.py"));
	OK(!DEPENDS("lib/x.py", "requirements.txt=x\n", "requirements-dev.txt=-e .\n",
		    "lib/x.py"));
}

TEST(what_builds_read_is_in_the_key)
{
	OK(DEPENDS("x/__init__.py", "pyproject.toml=[project]\ndynamic = ['version']\n",
		   "x/__init__.py"));
	OK(DEPENDS("x/version.py", "pyproject.toml=[project]\n", "setup.py",
		   "x/version.py"));
	OK(DEPENDS("README", "pyproject.toml=[project]\nreadme = 'README'\n", "README"));
	OK(!DEPENDS("x/__init__.py", "pyproject.toml=[project]\n", "x/__init__.py"));
	OK(DEPENDS("lib/x/__init__.py", "lib/x/__init__.py",
		   "pyproject.toml=[project]\n[tool.setuptools.packages.find]\n"
		   "where = ['lib']\n"));
	OK(DEPENDS("cmake/x.cmake", "CMakeLists.txt=include(cmake/x.cmake)\n",
		   "cmake/x.cmake"));
	OK(DEPENDS("lib/x/version.rb", "Gemfile=gemspec\n", "lib/x/version.rb"));
	OK(!DEPENDS("lib/x.rb", "Gemfile=gem 'rails'\n", "lib/x.rb"));
	OK(DEPENDS("crates/a/b/c/d/Cargo.toml", "Cargo.toml=[workspace]\n",
		   "crates/a/b/c/d/Cargo.toml"));
	/* cargo fetch does not build. */
	OK(!DEPENDS("build.rs", "Cargo.toml=[workspace]\n", "build.rs"));
	OK(!DEPENDS("x.go", "go.mod=module x\n", "x.go"));
}

TEST(what_written_commands_read_is_in_the_key)
{
	OK(DEPENDS("tools/x", "setup.sh=. tools/x\n", "tools/x"));
	OK(DEPENDS("tools/x", "warren.yaml=steps: [{run: make deps}]\n", "tools/x"));
	OK(!DEPENDS("tools/x", "warren.yaml=steps: [{run: make deps, files: [dep]}]\n",
		    "dep", "tools/x"));
	OK(DEPENDS("dep", "warren.yaml=steps: [{run: make deps, files: [dep]}]\n",
		   "dep"));
	OK(DEPENDS("tools/x", ".devcontainer.json={\"postCreateCommand\": \"make deps\"}",
		   "tools/x"));
	OK(!DEPENDS("tools/x", ".devcontainer.json={\"postCreateCommand\": \"npm ci\"}",
		    "package.json", "package-lock.json", "tools/x"));
	/* A build asks git for its version. */
	OK(DEPENDS(".git/refs/heads/main", "setup.sh", ".git/HEAD=ref: refs/heads/main\n",
		   ".git/refs/heads/main=1\n"));
	OK(!DEPENDS(".git/index", "setup.sh", ".git/index", ".git/HEAD=x\n"));
}

/* Wait until the times of the directories are old enough to be trusted. */
static void age(void)
{
	(void)usleep(100000);
}

static void key_of(int fd, const struct setup_plan *p, struct setup_key *ret)
{
	EQ(setup_plan_key(fd, p, KEY_OF("/p", "image", "/w", "none"), ret, &err), 0);
}

/* Too many files to read them all: times and inodes say what has changed. */
TEST(every_change_of_a_large_project_is_noticed)
{
	int fd = project((const char *const[]){ "setup.sh", "d/x=1", NULL });
	struct setup_plan p;
	struct setup_key one, two;
	char name[32];

	for (unsigned i = 0; i < 5001; i++) {
		(void)snprintf(name, sizeof(name), "d/f%u", i);
		(void)close(openat(fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
	}
	EQ(setup_plan_make(fd, &(struct setup_options){ .project = root }, &p, &err), 0);
	key_of(fd, &p, &one);
	key_of(fd, &p, &two);
	STREQ(one.key, two.key);
	age();
	EQ(fd_write_file_at(fd, "d/x", "2"), 0); /* of the same size */
	key_of(fd, &p, &two);
	OK(strcmp(one.key, two.key) != 0);
	EQ(fchmodat(fd, "d/f7", 0755, 0), 0);
	key_of(fd, &p, &one);
	OK(strcmp(one.key, two.key) != 0);
	EQ(renameat(fd, "d/f8", fd, "d/g8"), 0);
	key_of(fd, &p, &two);
	OK(strcmp(one.key, two.key) != 0);
	EQ(mkdirat(fd, "d/empty", 0755), 0);
	key_of(fd, &p, &one);
	OK(strcmp(one.key, two.key) != 0);
	setup_plan_done(&p);
	remove_project(fd);
}

TEST(links_out_of_the_project_are_not_followed)
{
	int fd = project((const char *const[]){ "go.mod", NULL });
	struct setup_plan p;
	struct setup_key one, two;

	EQ(symlinkat("/etc", fd, "etc"), 0);
	EQ(symlinkat("/etc/passwd", fd, "go.sum"), 0);
	EQ(mkfifoat(fd, "Cargo.lock", 0644), 0);
	EQ(setup_plan_make(fd, &(struct setup_options){ .project = root }, &p, &err), 0);
	EQ(setup_plan_key(fd, &p, KEY_OF("/p", "image", "/w", "none"), &one, &err), 0);
	EQ(unlinkat(fd, "go.sum", 0), 0);
	EQ(setup_plan_key(fd, &p, KEY_OF("/p", "image", "/w", "none"), &two, &err), 0);
	STREQ(one.key, two.key);
	setup_plan_done(&p);
	remove_project(fd);
}

TEST(a_key_depends_on_what_determines_the_result)
{
	int fd = project((const char *const[]){ "package.json", "package-lock.json",
						"src/x.js=1", NULL });
	struct setup_plan p;
	struct setup_key key, other;

	EQ(setup_plan_make(fd, &(struct setup_options){ .project = root }, &p, &err), 0);
	EQ(setup_plan_key(fd, &p, KEY_OF("/p", "image", "/w", "none"), &key, &err), 0);
	EQ(fd_write_file_at(fd, "src/x.js", "2"), 0);
	EQ(setup_plan_key(fd, &p, KEY_OF("/p", "image", "/w", "none"), &other, &err), 0);
	STREQ(key.key, other.key);
	EQ(setup_plan_key(fd, &p, KEY_OF("/p", "another", "/w", "none"), &other, &err),
	   0);
	OK(strcmp(key.key, other.key) != 0);
	EQ(setup_plan_key(fd, &p, KEY_OF("/p", "image", "/elsewhere", "none"), &other,
			  &err),
	   0);
	OK(strcmp(key.key, other.key) != 0);
	EQ(setup_plan_key(fd, &p, KEY_OF("/q", "image", "/w", "none"), &other, &err), 0);
	OK(strcmp(key.key, other.key) != 0);
	EQ(setup_plan_key(fd, &p, KEY_OF("/p", "image", "/w", "some"), &other, &err), 0);
	OK(strcmp(key.key, other.key) != 0);
	EQ(fd_write_file_at(fd, "package-lock.json", "[]"), 0);
	EQ(setup_plan_key(fd, &p, KEY_OF("/p", "image", "/w", "none"), &other, &err), 0);
	OK(strcmp(key.key, other.key) != 0);
	setup_plan_done(&p);
	remove_project(fd);
}

/* The titles of the steps of a plan that uses the file @memory. */
static const char *remembered(int fd, const char *memory)
{
	static char text[4096];
	struct setup_plan p;

	text[0] = '\0';
	EQ(setup_plan_make(fd,
			   &(struct setup_options){ .project = root, .memory = memory },
			   &p, &err),
	   0);
	for (size_t i = 0; i < p.steps.n; i++)
		(void)sprintf(text + strlen(text), "%s@%s;", p.steps.v[i].title,
			      p.steps.v[i].dir);
	setup_plan_done(&p);
	return text;
}

TEST(a_scan_is_remembered)
{
	int fd =
		project((const char *const[]){ "go.mod", "a/b/Cargo.toml", "c/x", NULL });
	char memory[600], command[1300];
	struct stat one, two;

	(void)snprintf(memory, sizeof(memory), "%s.memory", root);
	age();
	STREQ(remembered(fd, memory), "go mod download@;cargo fetch@a/b;");
	EQ(stat(memory, &one), 0);
	STREQ(remembered(fd, memory), "go mod download@;cargo fetch@a/b;");
	EQ(stat(memory, &two), 0);
	EQ(one.st_ino, two.st_ino); /* nothing was written */
	/* Every change of a directory is noticed: new, removed, renamed. */
	EQ(mkdirat(fd, "c/d", 0755), 0);
	EQ(fd_write_file_at(fd, "go.mod", "x"), 0);
	(void)close(openat(fd, "c/d/package.json", O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
	STREQ(remembered(fd, memory),
	      "go mod download@;cargo fetch@a/b;npm install@c/d;");
	age();
	EQ(unlinkat(fd, "go.mod", 0), 0);
	EQ(renameat(fd, "a/b", fd, "a/e"), 0);
	STREQ(remembered(fd, memory), "cargo fetch@a/e;npm install@c/d;");
	/* What .gitignore excludes is decided again. */
	(void)snprintf(command, sizeof(command), "echo c >%s/.gitignore", root);
	EQ(system(command), 0);
	STREQ(remembered(fd, memory), "cargo fetch@a/e;");
	/* A damaged file is ignored, wherever it ends. */
	for (long size = 200; size >= 0; size -= 7) {
		EQ(truncate(memory, size), 0);
		STREQ(remembered(fd, memory), "cargo fetch@a/e;");
	}
	EQ(unlink(memory), 0);
	remove_project(fd);
}

TEST_MAIN()
