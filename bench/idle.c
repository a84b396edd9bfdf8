/* SPDX-License-Identifier: Apache-2.0 */
/*
 * idle.c - the program in the sandboxes of floor.c: it reports that it runs, and waits
 * for its end
 */
#include "nolibc/sys.h"

#define MAKER 3 /* the connection */

__attribute__((noreturn, used)) void _start(void);

void _start(void)
{
	char word = 0;

	(void)sys_write(MAKER, &word, 1);
	(void)sys_read(MAKER, &word, 1);
	for (;;)
		sys_exit(0);
}
