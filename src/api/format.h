/* SPDX-License-Identifier: Apache-2.0 */
/* format.h - small checkers of strings: ids, names, paths, users and others */
#ifndef API_FORMAT_H
#define API_FORMAT_H

#include "api/api.h"

/*
 * Check @s, which is UTF-8 without a NUL. NULL: valid; otherwise the requirement ("must
 * be ...").
 */
const char *format_check(enum api_format format, const char *s);

/* Get the number of a signal by its name, with or without SIG; 0: unknown. */
int format_signal(const char *name);

#endif /* API_FORMAT_H */
