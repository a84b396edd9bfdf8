/* SPDX-License-Identifier: Apache-2.0 */
/* string.h - the text of an error without a locale: musl's strerror(3) has no other */
#ifndef COMPAT_STRING_H
#define COMPAT_STRING_H

#include_next <string.h>

#define strerrordesc_np strerror

#endif
