/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_name.h - the name of a snapshot: NAME or NAME:TAG, as an image is named */
#ifndef BASE_SNAPSHOT_NAME_H
#define BASE_SNAPSHOT_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

/* The snapshot <id> has the reference SNAPSHOT_REGISTRY "/<id>" in the image store. */
#define SNAPSHOT_REGISTRY "warren.snapshot"
#define SNAPSHOT_NAME_MAX 63
#define SNAPSHOT_NAME_RULE                                                               \
	"1 to 63 lower-case letters, digits, '_', '.' and '-', starting with a letter, " \
	"and may have a tag after ':'"

static inline bool snapshot_name_ok(const char *name)
{
	static const char all[] = "abcdefghijklmnopqrstuvwxyz0123456789_.-";
	size_t n = strspn(name, all), tag = 0;

	if (n == 0 || !strchr("abcdefghijklmnopqrstuvwxyz", name[0]))
		return false;
	if (name[n] == ':') {
		tag = strspn(name + n + 1, all);
		if (tag == 0 || name[n + 1] == '-' || name[n + 1] == '.')
			return false;
		n += 1 + tag;
	}
	return n <= SNAPSHOT_NAME_MAX && name[n] == '\0' &&
	       (strncmp(name, "host", 4) != 0 || (name[4] && name[4] != ':'));
}

/* Is @ref the reference of a snapshot? Clients may not use it. */
static inline bool snapshot_is_ref(const char *ref)
{
	return strncasecmp(ref, SNAPSHOT_REGISTRY, sizeof(SNAPSHOT_REGISTRY) - 1) == 0;
}

#endif /* BASE_SNAPSHOT_NAME_H */
