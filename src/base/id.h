/* SPDX-License-Identifier: Apache-2.0 */
/* id.h - short random names: twelve characters, no vowels that make words, sixty bits */
#ifndef BASE_ID_H
#define BASE_ID_H

#include <stdbool.h>

#define ID_LEN 12

void id_make(char id[ID_LEN + 1]);
bool id_valid(const char *s);

#endif /* BASE_ID_H */
