/* SPDX-License-Identifier: Apache-2.0 */
/*
 * progress.h - show a line on the terminal while an operation takes longer than a second
 *
 * The line is redrawn in place and erased at the end. It is not shown if stderr is not a
 * terminal.
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
 * Set the text for the next requests, such as "make a sandbox of python:3.12"; NULL: show
 * nothing.
 */
void progress_about(const char *what);

void progress_begin(struct progress *p);
void progress_tick(struct progress *p);
void progress_end(struct progress *p);

#endif /* CLI_CLIENT_PROGRESS_H */
