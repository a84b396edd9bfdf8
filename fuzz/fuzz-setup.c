/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-setup.c - any devcontainer.json, warren.yaml, makefile or manifest gives a plan
 * that stays inside the project, or an error
 */
#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "setup/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = { ".devcontainer.json", "warren.yaml",
				     "Makefile",           "requirements.txt",
				     "package.json",       "pyproject.toml",
				     "package-lock.json" };

static char root[] = "/tmp/warren-fuzz-setup-XXXXXX";

static void remove_project(void)
{
	(void)rmdir(root);
}

/* The directory, which is empty between two inputs, and removed at the end. */
static int project(void)
{
	static bool exists;
	int fd;

	if (!exists) {
		exists = mkdtemp(root) && atexit(remove_project) == 0;
		assert(exists);
	}
	fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert(fd >= 0);
	return fd;
}

static void check_below(const char *path)
{
	assert(!path || (path[0] != '/' && strncmp(path, "../", 3) != 0 &&
			 strcmp(path, "..") != 0 && !strstr(path, "/../")));
}

static void check(int dir, const struct setup_plan *p)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_BUF struct buf out = BUF_INIT(64U << 20);
	struct json j = { .out = &out };
	struct setup_key key;

	assert(!p->workdir || p->workdir[0] == '/');
	check_below(p->build.dockerfile);
	check_below(p->build.context);
	for (size_t i = 0; i < p->steps.n; i++) {
		const struct setup_step *s = &p->steps.v[i];

		assert(s->title && s->dir && s->why && s->run && s->run[0]);
		check_below(s->dir);
	}
	for (char **v = p->files; v && *v; v++)
		check_below(*v);
	for (size_t i = 0; i < p->n_mounts; i++)
		assert(p->mounts[i].target[0] == '/');
	setup_plan_json(p, &j);
	assert(!out.failed);
	assert(setup_plan_key(dir, p,
			      &(struct setup_key_of){ .project = "/p",
						      .image_id = "image",
						      .workdir = "/w" },
			      &key, &err) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const env[] = { "A=1", NULL };
	struct setup_options o = { .project = "/home/user/project", .env = env };
	struct warren_error err = WARREN_ERROR_INIT;
	struct setup_plan p;
	const char *name;
	int dir, fd;

	if (size == 0 || size > 1U << 16)
		return 0;
	dir = project();
	name = names[data[0] % ARRAY_SIZE(names)];
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert(fd >= 0 && write(fd, data + 1, size - 1) == (ssize_t)size - 1);
	(void)close(fd);
	/* npm's lock file counts only next to a manifest. */
	if (strcmp(name, "package-lock.json") == 0) {
		fd = openat(dir, "package.json", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		assert(fd >= 0 && write(fd, "{}", 2) == 2);
		(void)close(fd);
	}
	if (setup_plan_make(dir, &o, &p, &err) == 0) {
		check(dir, &p);
		setup_plan_done(&p);
	} else {
		assert(err.code && err.msg[0]);
	}
	(void)unlinkat(dir, name, 0);
	(void)unlinkat(dir, "package.json", 0);
	(void)close(dir);
	return 0;
}
