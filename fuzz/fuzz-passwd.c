/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz-passwd.c - find users and groups in any text of an image */
#include <stdlib.h>
#include <string.h>

#include "base/macro.h"
#include "base/passwd.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_entry(const struct passwd_entry *e)
{
	size_t name = strnlen(e->name, sizeof(e->name)),
	       home = strnlen(e->home, sizeof(e->home));

	if (name == 0 || name == sizeof(e->name) || strpbrk(e->name, ":\n"))
		abort();
	if (home == sizeof(e->home) || e->home[0] != '/' || strpbrk(e->home, ":\n"))
		abort();
	if (e->uid == UINT32_MAX || e->gid == UINT32_MAX)
		abort();
}

/* The first line is the name to look up, the rest is the file. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *text = (const char *)data;
	size_t len = size ? strcspn(strndupa(text, size < 100 ? size : 100), "\n") : 0;
	char *name = strndup(text, len);
	struct passwd_entry e;
	uint32_t gids[4], gid = 0;

	if (!name)
		return 0;
	text += len;
	size -= len;
	if (passwd_find(text, size, name, 0, &e) == 0) {
		check_entry(&e);
		if (strcmp(e.name, name) != 0)
			abort();
		if (passwd_find(text, size, NULL, e.uid, &e) < 0)
			abort(); /* found by name, so also by number: this entry, or
				    another one with the same number */
	}
	if (passwd_find(text, size, NULL, 0, &e) == 0 && e.uid != 0)
		abort();
	if (passwd_find_group(text, size, name, &gid) == 0 && gid == UINT32_MAX)
		abort();
	if (passwd_find_groups(text, size, name, gids, ARRAY_SIZE(gids)) >
	    ARRAY_SIZE(gids))
		abort();
	free(name);
	return 0;
}
