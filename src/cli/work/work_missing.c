/* SPDX-License-Identifier: Apache-2.0 */
/* work_missing.c - find a command on this machine, and the options that show it inside */
#include "cli/work/work_missing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/macro.h"
#include "cli/command.h"
#include "cli/work/setup_print.h"

static bool missing_is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* The path of the command on this machine; NULL: there is none. The caller frees it. */
static char *missing_find(const char *name)
{
	const char *path = getenv("PATH");
	AUTO_FREE char *dirs = strdup(path ? path : "");
	char *rest = NULL;

	if (name[0] == '/')
		return missing_is_program(name) ? strdup(name) : NULL;
	if (!dirs || strchr(name, '/'))
		return NULL;
	for (const char *dir = strtok_r(dirs, ":", &rest); dir;
	     dir = strtok_r(NULL, ":", &rest)) {
		AUTO_FREE char *found = NULL;

		if (dir[0] != '/' || asprintf(&found, "%s/%s", dir, name) < 0)
			found = NULL;
		else if (missing_is_program(found))
			return TAKE_PTR(found);
	}
	return NULL;
}

static bool missing_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

/* Does the directory have more than programs: is it the home directory, or above it? */
static bool missing_is_private(const char *dir)
{
	const char *home = getenv("HOME");
	AUTO_FREE char *real = home && *home ? realpath(home, NULL) : NULL;

	return !dir[0] || (real && missing_below(real, dir)) ||
	       (home && missing_below(home, dir));
}

static void missing_add_mount(struct buf *out, const char *dir)
{
	buf_puts(out, " -v ");
	setup_print_text(out, dir);
	buf_puts(out, ":");
	setup_print_text(out, dir);
	buf_puts(out, ":ro");
}

void work_missing_say(const char *name, const char *project)
{
	AUTO_FREE char *found = missing_find(name);
	/* A program is often a link to a file in another directory. */
	AUTO_FREE char *real = found ? realpath(found, NULL) : NULL;
	struct buf AUTO_BUF options = BUF_INIT(16384);

	if (!real || missing_below(real, project))
		return;
	*strrchr(found, '/') = '\0';
	*strrchr(real, '/') = '\0';
	if (missing_is_private(found) || missing_is_private(real)) {
		message_say("work",
			    "this machine has '%s' in '%s', which the sandbox does not "
			    "see: copy it to a directory for programs, and show that "
			    "with -v",
			    name, missing_is_private(found) ? found : real);
		return;
	}
	missing_add_mount(&options, found);
	if (!missing_below(real, found))
		missing_add_mount(&options, real);
	if (name[0] != '/')
		buf_puts(&options, " -e PATH");
	if (!options.failed)
		message_say("work",
			    "this machine has '%s' in '%s', which the sandbox does not "
			    "see, like all of your home directory; show it with%s",
			    name, found, options.data);
}
