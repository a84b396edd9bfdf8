/* SPDX-License-Identifier: Apache-2.0 */
/* base64.h - bytes that came in JSON */
#ifndef CLI_CLIENT_BASE64_H
#define CLI_CLIENT_BASE64_H

#include <sys/types.h>

/*
 * @n characters, decoded in place: the result is the shorter one. Padding is
 * required. Returns the length, or -EINVAL.
 */
ssize_t base64_decode(char *text, size_t n);

#endif /* CLI_CLIENT_BASE64_H */
