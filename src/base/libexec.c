/* SPDX-License-Identifier: Apache-2.0 */
/* libexec.c - find the helper programs of this program */
#include "base/libexec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool libexec_try(const char *dir, size_t len, const char *name,
			char path[PATH_MAX])
{
	int n = snprintf(path, PATH_MAX, "%.*s/%s", (int)len, dir, name);

	return n > 0 && n < PATH_MAX && access(path, X_OK) == 0;
}

int libexec_find(const char *name, char ret_path[PATH_MAX], struct warren_error *err)
{
	const char *asked = secure_getenv("WARREN_LIBEXEC");
	char self[PATH_MAX];
	ssize_t n;

	if (asked && *asked) {
		if (libexec_try(asked, strlen(asked), name, ret_path))
			return 0;
		return error_errno(err, errno, "find %s in WARREN_LIBEXEC, '%s'", name,
				   asked);
	}
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n > 0) {
		const char *slash;

		self[n] = '\0';
		slash = strrchr(self, '/');
		if (slash && libexec_try(self, (size_t)(slash - self), name, ret_path))
			return 0;
	}
	if (libexec_try(WARREN_LIBEXECDIR, strlen(WARREN_LIBEXECDIR), name, ret_path))
		return 0;
	return error_errno(
		err, errno,
		"find the helper program %s next to warren or in %s (run 'make install', "
		"or set WARREN_LIBEXEC to the directory that contains it)",
		name, WARREN_LIBEXECDIR);
}
