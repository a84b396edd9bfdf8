/* SPDX-License-Identifier: Apache-2.0 */
/* title.h - what ps(1) calls the processes of the service: "warren: api" */
#ifndef DAEMON_TITLE_H
#define DAEMON_TITLE_H

/*
 * First of all in main(): returns @argv with strings that are not overwritten later. If
 * there is no memory, it returns @argv itself, and the title stays as it is.
 */
char **title_open(int argc, char **argv);
void title_set(const char *role);

#endif /* DAEMON_TITLE_H */
