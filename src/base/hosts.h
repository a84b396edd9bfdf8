/* SPDX-License-Identifier: Apache-2.0 */
/* hosts.h - /etc/hosts of a sandbox */
#ifndef BASE_HOSTS_H
#define BASE_HOSTS_H

/*
 * Write etc/hosts below the directory @upper: names for loopback, and the sandbox's own
 * name. The sandbox has no other address, so its name resolves to loopback. @upper/etc
 * must exist and be empty. 0 or -errno.
 */
int hosts_write(const char *upper, const char *hostname);

#endif /* BASE_HOSTS_H */
