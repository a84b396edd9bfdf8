/* SPDX-License-Identifier: Apache-2.0 */
/* secret_name.h - the name of a secret: [A-Za-z_][A-Za-z0-9_]{0,63} */
#ifndef BASE_SECRET_NAME_H
#define BASE_SECRET_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define SECRET_NAME_MAX 64

#define SECRET_NAME_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"

/* Get the length of the name that @text begins with; 0: it begins with no name. */
static inline size_t secret_name_len(const char *text)
{
	if (strspn(text, SECRET_NAME_LETTERS) == 0)
		return 0;
	return strspn(text, SECRET_NAME_LETTERS "0123456789");
}

static inline bool secret_name_ok(const char *name)
{
	size_t n = secret_name_len(name);

	return n > 0 && n <= SECRET_NAME_MAX && name[n] == '\0';
}

#endif /* BASE_SECRET_NAME_H */
