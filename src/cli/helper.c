/* SPDX-License-Identifier: Apache-2.0 */
/* helper.c - finding the programs beside this one */
#include "cli/helper.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool try(const char *dir, size_t len, const char *name, char path[PATH_MAX])
{
	int n = snprintf(path, PATH_MAX, "%.*s/%s", (int)len, dir, name);

	return n > 0 && n < PATH_MAX && access(path, X_OK) == 0;
}

int helper_find(const char *name, char ret_path[PATH_MAX], struct warren_error *err)
{
	const char *asked = getenv("WARREN_LIBEXEC");
	char self[PATH_MAX];
	ssize_t n;

	if (asked && *asked) {
		if (try(asked, strlen(asked), name, ret_path))
			return 0;
		return error_errno(err, errno, "find %s in WARREN_LIBEXEC, '%s'", name,
				   asked);
	}
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n > 0) {
		const char *slash;

		self[n] = '\0';
		slash = strrchr(self, '/');
		if (slash && try(self, (size_t)(slash - self), name, ret_path))
			return 0;
	}
	if (try(WARREN_LIBEXECDIR, strlen(WARREN_LIBEXECDIR), name, ret_path))
		return 0;
	return error_errno(
		err, errno,
		"find the program %s, which belongs to warren, beside it or in %s", name,
		WARREN_LIBEXECDIR);
}

int helper_run(const struct command *cmd, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	char path[PATH_MAX];

	if (helper_find(cmd->program, path, &err) < 0) {
		say(cmd->name, "%s", err.msg);
		return STATUS_FAILED;
	}
	(void)execv(path, argv);
	say(cmd->name, "start %s: %s", path, strerrordesc_np(errno));
	return STATUS_FAILED;
}
