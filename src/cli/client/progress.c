/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - show the elapsed time */
#include "cli/client/progress.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/fd.h"

#define SECOND UINT64_C(1000000000)

static const char *about;

void progress_about(const char *what)
{
	about = what;
}

void progress_begin(struct progress *p)
{
	*p = (struct progress){ .begun = clock_now() };
}

void progress_tick(struct progress *p)
{
	uint64_t age = clock_now() - p->begun;
	char line[256];
	int n;

	if (!about || age < SECOND || !isatty(STDERR_FILENO))
		return;
	n = snprintf(line, sizeof(line), "\r%.160s ... %" PRIu64 "s", about,
		     age / SECOND);
	p->shown = n > 0 && fd_write_all(STDERR_FILENO, line, (size_t)n) == 0;
}

void progress_end(struct progress *p)
{
	static const char wipe[] = "\r\033[K";

	if (p->shown)
		(void)fd_write_all(STDERR_FILENO, wipe, sizeof(wipe) - 1);
	p->shown = false;
}
