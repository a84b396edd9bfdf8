/* SPDX-License-Identifier: Apache-2.0 */
/* id.h - random ids: twelve characters, sixty bits, no vowels that could form words */
#ifndef BASE_ID_H
#define BASE_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ID_LEN 12

#define ID_RANDOM_MAX 32

void id_make(char id[ID_LEN + 1]);
/*
 * Create ids in two steps, for callers that create so many that the cost of the system
 * call matters. id_random() gets at most ID_RANDOM_MAX random numbers; id_from() turns
 * each into one id. A process that keeps unused numbers must not fork(2).
 */
void id_random(uint64_t *bits, size_t n);
void id_from(uint64_t bits, char id[ID_LEN + 1]);
bool id_valid(const char *s);

#endif /* BASE_ID_H */
