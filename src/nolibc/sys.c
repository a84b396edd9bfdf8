/* SPDX-License-Identifier: Apache-2.0 */
/* sys.c - functions that compilers expect to exist */
#include "nolibc/sys.h"

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
	unsigned char *t = to;
	const unsigned char *f = from;

#if defined(__x86_64__)
	__asm__ volatile("rep movsb" : "+D"(t), "+S"(f), "+c"(n) : : "memory");
#else
	for (; n >= 8; n -= 8, t += 8, f += 8)
		__builtin_memcpy(t, f, 8);
	while (n--)
		*t++ = *f++;
#endif
	return to;
}

void *memmove(void *to, const void *from, size_t n)
{
	unsigned char *t = to;
	const unsigned char *f = from;

	if (t <= f || t >= f + n)
		return memcpy(to, from, n);
	while (n--)
		t[n] = f[n];
	return to;
}

void *memset(void *to, int c, size_t n)
{
	volatile unsigned char *t = to; /* otherwise the compiler would call memset() */

	while (n--)
		*t++ = (unsigned char)c;
	return to;
}

int memcmp(const void *a, const void *b, size_t n)
{
	const unsigned char *p = a, *q = b;

	for (; n > 0; n--, p++, q++)
		if (*p != *q)
			return *p - *q;
	return 0;
}

size_t strlen(const char *s)
{
	const char *p = s;

	while (*p)
		p++;
	return (size_t)(p - s);
}
