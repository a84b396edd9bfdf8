/* SPDX-License-Identifier: Apache-2.0 */
/* strv.h - NULL-terminated lists of strings, like argv and environ */
#ifndef BASE_STRV_H
#define BASE_STRV_H

#include <stdbool.h>
#include <stddef.h>

#include "base/macro.h"

/*
 * A parameter for a list that is only read; it accepts pointers with any combination of
 * const. NULL is an empty list.
 */
union strv {
	char **list;
	char *const *list_const;
	const char **strings_const;
	const char *const *all_const;
} __attribute__((transparent_union));

size_t strv_len(union strv v);
/* Get the number of bytes of all strings, with their terminators. */
size_t strv_bytes(union strv v);
/* Copy the list and its strings; NULL: out of memory. */
char **strv_copy(union strv v) MUST_CHECK;
char **strv_free(char **v);
/* Append a copy of @s; *@v may be NULL. On -ENOMEM, *@v is unchanged. */
int strv_add(char ***v, const char *s) MUST_CHECK;
/* Return whether the list contains @s; the other function ignores case. */
bool strv_has(union strv v, const char *s);
bool strv_has_case(union strv v, const char *s);

static inline void strv_free_p(char ***v)
{
	(void)strv_free(*v);
}

#define AUTO_STRV CLEANUP(strv_free_p)

#endif /* BASE_STRV_H */
