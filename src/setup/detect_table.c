/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detect_table.c - the manifests that Warren knows, one row for each way to install
 *
 * To add one: write a row (detect.h explains the fields), in front of those of its group
 * that match in fewer cases, and a project in test/system/test-detect.py. Commands must
 * not change files of the project that exist, and must work a second time on top of their
 * own result. inputs.c decides what each row reads; a row that it does not know is
 * assumed to read every file of the project.
 */
#include "setup/detect.h"

/* What was in order before does not have to be put in order. */
#define PIP_BEFORE "python3 -m pip check >/tmp/.warren-pip-before 2>&1 || true\n"
/* Without that file, this was verified when the step ran, in another sandbox. */
#define PIP_VERIFY                                            \
	"[ -e /tmp/.warren-pip-before ] || exit 0\n"          \
	"python3 -m pip check >/tmp/.warren-pip-now 2>&1 || " \
	"! grep -vxF -f /tmp/.warren-pip-before /tmp/.warren-pip-now"
#define PYTHON_FILES \
	"requirements*.txt constraints*.txt setup.py setup.cfg .python-version"
#define NODE_FILES  ".npmrc .yarnrc .yarnrc.yml .nvmrc .node-version"
#define CARGO_FILES "rust-toolchain rust-toolchain.toml"
#define GRADLE_RUN  "if [ -x ./gradlew ]; then gradle=./gradlew; else gradle=gradle; fi\n"

const struct detect_row detect_table[] = {
	/* Python */
	{ .name = "uv",
	  .group = "python",
	  .file = "pyproject.toml",
	  .lock = "uv.lock",
	  .members = "pyproject.toml:[tool.uv.workspace]",
	  .files = PYTHON_FILES " uv.toml",
	  .needs = "uv",
	  .title = "uv sync --frozen",
	  .run = "uv sync --frozen",
	  .verify = "uv run --no-sync python -c ''" },
	{ .name = "poetry",
	  .group = "python",
	  .file = "pyproject.toml",
	  .text = "[tool.poetry",
	  .files = PYTHON_FILES " poetry.lock poetry.toml",
	  .needs = "poetry",
	  .title = "poetry install",
	  .run = "poetry install --no-interaction",
	  .verify = "poetry run python -c ''" },
	{ .name = "pip",
	  .group = "python",
	  .file = "requirements.txt",
	  .files = PYTHON_FILES " pyproject.toml pip.conf",
	  .needs = "python3",
	  .title = "pip install -r requirements.txt",
	  .run = PIP_BEFORE "python3 -m pip install -r requirements.txt",
	  .verify = PIP_VERIFY },
	{ .name = "pip",
	  .group = "python",
	  .file = "pyproject.toml",
	  .text = "[project]\n[build-system]",
	  .files = PYTHON_FILES,
	  .needs = "python3",
	  .title = "pip install -e .",
	  .run = PIP_BEFORE "python3 -m pip install -e .",
	  .verify = PIP_VERIFY },
	/* JavaScript */
	{ .name = "pnpm",
	  .group = "node",
	  .file = "package.json",
	  .lock = "pnpm-lock.yaml",
	  .members = "pnpm-workspace.yaml",
	  .files = NODE_FILES " pnpm-workspace.yaml .pnpmfile.cjs",
	  .needs = "pnpm",
	  .title = "pnpm install --frozen-lockfile",
	  .run = "pnpm install --frozen-lockfile",
	  .verify = "pnpm ls --depth 0 >/dev/null" },
	{ .name = "yarn",
	  .group = "node",
	  .file = "package.json",
	  .lock = "yarn.lock",
	  .members = "package.json:\"workspaces\"",
	  .files = NODE_FILES,
	  .needs = "yarn",
	  .title = "yarn install",
	  .run = "if [ -e .yarnrc.yml ]; then yarn install --immutable\n"
		 "else yarn install --frozen-lockfile --non-interactive; fi",
	  .verify = "[ -d node_modules ] || [ -e .pnp.cjs ]" },
	{ .name = "npm",
	  .group = "node",
	  .file = "package.json",
	  .lock = "package-lock.json",
	  .members = "package.json:\"workspaces\"",
	  .files = NODE_FILES,
	  .needs = "npm",
	  .title = "npm ci",
	  .run = "npm ci",
	  .verify = "npm ls --depth=0 >/dev/null" },
	{ .name = "npm",
	  .group = "node",
	  .file = "package.json",
	  .lock = "npm-shrinkwrap.json",
	  .members = "package.json:\"workspaces\"",
	  .files = NODE_FILES,
	  .needs = "npm",
	  .title = "npm ci",
	  .run = "npm ci",
	  .verify = "npm ls --depth=0 >/dev/null" },
	{ .name = "npm",
	  .group = "node",
	  .file = "package.json",
	  .members = "package.json:\"workspaces\"",
	  .files = NODE_FILES,
	  .needs = "npm",
	  .title = "npm install",
	  .run = "npm install --no-package-lock",
	  .verify = "npm ls --depth=0 >/dev/null" },
	/* Rust */
	{ .name = "cargo",
	  .group = "rust",
	  .file = "Cargo.toml",
	  .lock = "Cargo.lock",
	  .members = "Cargo.toml:[workspace]",
	  .files = CARGO_FILES,
	  .needs = "cargo",
	  .title = "cargo fetch --locked",
	  .run = "cargo fetch --locked",
	  .verify = "cargo metadata --locked --offline --format-version 1 >/dev/null" },
	{ .name = "cargo",
	  .group = "rust",
	  .file = "Cargo.toml",
	  .members = "Cargo.toml:[workspace]",
	  .files = CARGO_FILES,
	  .needs = "cargo",
	  .title = "cargo fetch",
	  .run = "cargo fetch",
	  .verify = "cargo metadata --offline --format-version 1 >/dev/null" },
	/* Go */
	{ .name = "go",
	  .group = "go",
	  .file = "go.mod",
	  .files = "go.sum go.work go.work.sum",
	  .needs = "go",
	  .title = "go mod download",
	  .run = "go mod download",
	  .verify = "go mod verify" },
	/* Ruby */
	{ .name = "bundler",
	  .group = "ruby",
	  .file = "Gemfile",
	  .files = "Gemfile.lock .ruby-version *.gemspec",
	  .needs = "bundle",
	  .title = "bundle install",
	  .run = "bundle install",
	  .verify = "bundle check" },
	/* Java */
	{ .name = "maven",
	  .group = "java",
	  .file = "pom.xml",
	  .members = "*",
	  .files = "maven-wrapper.properties",
	  .needs = "mvn",
	  .title = "mvn dependency:go-offline",
	  .run = "mvn -B -q dependency:go-offline",
	  .verify = "mvn -B -q -o validate" },
	{ .name = "gradle",
	  .group = "java",
	  .file = "build.gradle",
	  .members = "*",
	  .files =
		  "settings.gradle gradle.properties gradle.lockfile gradle-wrapper.properties",
	  .title = "gradle dependencies",
	  .run = GRADLE_RUN "$gradle --no-daemon -q dependencies",
	  .verify =
		  GRADLE_RUN "$gradle --no-daemon --offline -q dependencies >/dev/null" },
	{ .name = "gradle",
	  .group = "java",
	  .file = "build.gradle.kts",
	  .members = "*",
	  .files = "settings.gradle.kts gradle.properties gradle.lockfile "
		   "gradle-wrapper.properties",
	  .title = "gradle dependencies",
	  .run = GRADLE_RUN "$gradle --no-daemon -q dependencies",
	  .verify =
		  GRADLE_RUN "$gradle --no-daemon --offline -q dependencies >/dev/null" },
	/* PHP */
	{ .name = "composer",
	  .group = "php",
	  .file = "composer.json",
	  .files = "composer.lock",
	  .needs = "composer",
	  .title = "composer install",
	  .run = "composer install --no-interaction --no-progress",
	  .verify = "php -r 'require \"vendor/autoload.php\";'" },
	/* Elixir */
	{ .name = "mix",
	  .group = "elixir",
	  .file = "mix.exs",
	  .files = "mix.lock .tool-versions",
	  .needs = "mix",
	  .title = "mix deps.get",
	  .run = "mix local.hex --force --if-missing\n"
		 "mix local.rebar --force --if-missing\n"
		 "mix deps.get\nmix deps.compile",
	  .verify = "mix deps.loadpaths" },
	/* C and C++ */
	{ .name = "cmake",
	  .group = "cmake",
	  .file = "CMakeLists.txt",
	  .members = "*",
	  .files = "CMakePresets.json vcpkg.json conanfile.txt",
	  .needs = "cmake",
	  .title = "cmake -S . -B build",
	  .run = "cmake -S . -B build",
	  .verify = "test -f build/CMakeCache.txt" },
};
const size_t n_detect_table = ARRAY_SIZE(detect_table);
