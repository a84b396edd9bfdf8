/* SPDX-License-Identifier: Apache-2.0 */
/* hosts.h - /etc/hosts of a sandbox */
#ifndef BASE_HOSTS_H
#define BASE_HOSTS_H

/*
 * Write etc/hosts below @upper, a path, as docker does: loopback, and the sandbox's own
 * name. The sandbox has no other address, so its name is loopback's. @upper/etc must be
 * there and empty. 0 or -errno.
 */
int hosts_write(const char *upper, const char *hostname);

#endif /* BASE_HOSTS_H */
