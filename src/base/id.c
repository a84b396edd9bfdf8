/* SPDX-License-Identifier: Apache-2.0 */
/* id.c - ids from the kernel's random numbers */
#include "base/id.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const char alphabet[] = "0123456789bcdfghjklmnpqrstvwxyz!";

_Static_assert(sizeof(alphabet) == 33, "five bits a character");

void id_make(char id[ID_LEN + 1])
{
	uint64_t bits = 0;

	id_random(&bits, 1);
	id_from(bits, id);
}

void id_random(uint64_t *bits, size_t n)
{
	ssize_t size = (ssize_t)(n * sizeof(*bits));

	if (getrandom(bits, (size_t)size, 0) != size)
		abort(); /* requests for up to 256 bytes never fail once the kernel's
			    generator is ready */
}

void id_from(uint64_t bits, char id[ID_LEN + 1])
{
	for (int i = 0; i < ID_LEN; i++, bits >>= 5) {
		unsigned n = bits & 31;

		/*
		 * The first character is never a digit, so that an id is a valid host
		 * name.
		 */
		if (i == 0)
			n = 10 + n % 21;
		id[i] = alphabet[n % 31];
	}
	id[ID_LEN] = '\0';
}

bool id_valid(const char *s)
{
	return strlen(s) == ID_LEN &&
	       strspn(s, "0123456789bcdfghjklmnpqrstvwxyz") == ID_LEN;
}
