/* SPDX-License-Identifier: Apache-2.0 */
/* path.c - the path of a file in a sandbox, as a client writes it */
#include "api/path.h"

#include <stdio.h>
#include <string.h>

bool api_path(const char *workdir, const char *path, char out[API_PATH_MAX])
{
	char whole[2 * API_PATH_MAX];
	size_t len = 0;
	int n = snprintf(whole, sizeof(whole), "%s/%s", path[0] == '/' ? "" : workdir,
			 path);

	if (n < 0 || (size_t)n >= sizeof(whole))
		return false;
	/* Handle each component; ".." removes the previous one, if there is one. */
	for (char *p = whole; *p;) {
		size_t word = strcspn(p, "/");

		if (word == 2 && memcmp(p, "..", 2) == 0) {
			while (len > 0 && out[--len] != '/')
				;
		} else if (word > 0 && !(word == 1 && *p == '.')) {
			if (len + 1 + word >= API_PATH_MAX)
				return false;
			out[len++] = '/';
			(void)memcpy(out + len, p, word);
			len += word;
		}
		p += word + (p[word] == '/');
	}
	if (len == 0)
		out[len++] = '/';
	out[len] = '\0';
	return true;
}
