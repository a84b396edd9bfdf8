/* SPDX-License-Identifier: Apache-2.0 */
/* title.h - the titles of the service's processes in ps(1): "warren: api" */
#ifndef DAEMON_TITLE_H
#define DAEMON_TITLE_H

/*
 * Prepare to change the title. Call this first in main(). Returns a copy of @argv that
 * title_set() does not overwrite. If memory runs out, it returns @argv, and the title
 * does not change.
 */
char **title_open(int argc, char **argv);
void title_set(const char *role);

#endif /* DAEMON_TITLE_H */
