/* SPDX-License-Identifier: Apache-2.0 */
/*
 * string.h - strerrordesc_np(3), which musl lacks: strerror(3) is the same without a
 * locale
 */
#ifndef COMPAT_STRING_H
#define COMPAT_STRING_H

#include_next <string.h>

#define strerrordesc_np strerror

#endif
