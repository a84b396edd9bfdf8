/* SPDX-License-Identifier: Apache-2.0 */
/* jsonc.h - JSON with comments and trailing commas */
#ifndef SETUP_JSONC_H
#define SETUP_JSONC_H

#include <stddef.h>

/*
 * Replace comments and commas in front of a closing bracket by spaces, so that the rest
 * is JSON if @text was valid; lines and columns stay the same.
 */
void jsonc_to_json(char *text, size_t n);

#endif /* SETUP_JSONC_H */
