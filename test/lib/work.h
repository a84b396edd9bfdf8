/* SPDX-License-Identifier: Apache-2.0 */
/* work.h - a project and works in a directory of the test, which end() removes */
#ifndef TEST_WORK_H
#define TEST_WORK_H

#include <stdarg.h>

#include "work/work.h"

#include "lib/tap.h"

static struct warren_error err;
static char top[64], project[96];

/* Run a shell command in the test's directory. */
__attribute__((format(printf, 1, 2), unused)) static void shell(const char *fmt, ...)
{
	char command[4096];
	va_list ap;
	int n = snprintf(command, sizeof(command), "cd '%s' && ", top);

	va_start(ap, fmt);
	(void)vsnprintf(command + n, sizeof(command) - (size_t)n, fmt, ap);
	va_end(ap);
	if (system(command) != 0)
		TAP_FAIL("failed: %s", command);
}

/* Run git in the project. */
__attribute__((unused)) static void git(const char *args)
{
	shell("cd p && export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a "
	      "GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b && git %s",
	      args);
}

/* A path in the test's directory. */
__attribute__((unused)) static const char *in(const char *name)
{
	static char paths[4][4096];
	static unsigned next;
	char *path = paths[next++ % 4];

	(void)snprintf(path, sizeof(paths[0]), "%s/%s", top, name);
	return path;
}

static inline void begin(void)
{
	(void)strcpy(top, "/tmp/warren-work-XXXXXX");
	OK(mkdtemp(top));
	(void)snprintf(project, sizeof(project), "%s/p", top);
	EQ(setenv("WARREN_STATE", in("state"), 1), 0);
	shell("mkdir p");
}

static inline void end(void)
{
	/* Files that another process removes at the same time are ignored. */
	shell("chmod -R u+rwX . 2>/dev/null; until rm -rf '%s' 2>/dev/null; do sleep 0.1; done",
	      top);
}

/* Create a work; o->project may be NULL. */
__attribute__((unused)) static struct work *start_with(const struct work_options *o)
{
	struct work_options all = *o;
	struct work *w;

	if (!all.project)
		all.project = project;
	if (work_create(&all, &w, &err) < 0)
		TAP_FAIL("%s", err.msg);
	return w;
}

__attribute__((unused)) static struct work *start(void)
{
	return start_with(&(struct work_options){ 0 });
}

/*
 * Run a shell command as the sandbox would: in the overlay of the work. Needs mounts.
 */
__attribute__((format(printf, 2, 3), unused)) static void inside(const struct work *w,
								 const char *fmt, ...)
{
	char command[2048], copy[4096];
	va_list ap;

	(void)snprintf(copy, sizeof(copy), "%s/copy", w->dir);
	va_start(ap, fmt);
	(void)vsnprintf(command, sizeof(command), fmt, ap);
	va_end(ap);
	EQ(setenv("INSIDE", command, 1), 0);
	shell("mkdir -p m && unshare %s -m sh -ec 'mount -t overlay overlay -o "
	      "userxattr,lowerdir=%s/hide:%s,"
	      "upperdir=%s/writes/upper,workdir=%s/writes/work m; cd m; eval \"$INSIDE\"'",
	      geteuid() == 0 ? "" : "-Ur", w->dir,
	      w->mode == WORK_COPY ? copy : w->project, w->dir, w->dir);
}

#endif /* TEST_WORK_H */
