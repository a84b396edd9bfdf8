/* SPDX-License-Identifier: Apache-2.0 */
/* volume_name.h - the name of a volume: [A-Za-z0-9][A-Za-z0-9_.-]{0,62} */
#ifndef BASE_VOLUME_NAME_H
#define BASE_VOLUME_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define VOLUME_NAME_MAX 63
#define VOLUME_NAME_RULE                                                        \
	"1 to 63 letters, digits, '_', '.' and '-', starting with a letter or " \
	"digit"

static inline bool volume_name_ok(const char *name)
{
	static const char all[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
	size_t n = strspn(name, all);

	return n > 0 && n <= VOLUME_NAME_MAX && name[n] == '\0' &&
	       !strchr("_.-", name[0]);
}

#endif /* BASE_VOLUME_NAME_H */
