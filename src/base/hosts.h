/* SPDX-License-Identifier: Apache-2.0 */
/* hosts.h - /etc/hosts of a sandbox */
#ifndef BASE_HOSTS_H
#define BASE_HOSTS_H

#define HOSTS_SIZE 512

/* Write the text to @text, with a NUL; its length, or -ENAMETOOLONG. */
int hosts_text(char text[HOSTS_SIZE], const char *hostname);

/*
 * Write etc/hosts below the directory @upper: names for loopback, and the sandbox's own
 * name. The sandbox has no other address, so its name resolves to loopback. @upper/etc
 * must exist and be empty. 0 or -errno.
 */
int hosts_write(const char *upper, const char *hostname);

#endif /* BASE_HOSTS_H */
