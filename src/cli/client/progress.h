/* SPDX-License-Identifier: Apache-2.0 */
/*
 * progress.h - a line on the terminal while an operation takes longer than a second
 *
 * It is written over itself and gone at the end; where stderr is no terminal
 * there is none.
 */
#ifndef CLI_CLIENT_PROGRESS_H
#define CLI_CLIENT_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	uint64_t begun; /* ns */
	bool shown;
};

/*
 * What the next requests are for, "make a sandbox of python:3.12"; NULL: nothing to show.
 */
void progress_about(const char *what);

void progress_begin(struct progress *p);
void progress_tick(struct progress *p);
void progress_end(struct progress *p);

#endif /* CLI_CLIENT_PROGRESS_H */
