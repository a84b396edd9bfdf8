/* SPDX-License-Identifier: Apache-2.0 */
/* id.h - random ids: twelve characters, no vowels that form words, sixty bits */
#ifndef BASE_ID_H
#define BASE_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ID_LEN 12

#define ID_RANDOM_MAX 32

void id_make(char id[ID_LEN + 1]);
/*
 * The same in two steps, for callers that create so many that the system call matters:
 * random numbers, at most ID_RANDOM_MAX, each of which becomes one id. A process that
 * keeps some must not fork(2).
 */
void id_random(uint64_t *bits, size_t n);
void id_from(uint64_t bits, char id[ID_LEN + 1]);
bool id_valid(const char *s);

#endif /* BASE_ID_H */
