/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hosts.c - /etc/hosts of a sandbox
 *
 * The file is written into the new upper layer of a root, before any process runs in the
 * sandbox. It is an ordinary file, which root inside may change.
 */
#include "base/hosts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/macro.h"

#define LOOPBACK                                      \
	"127.0.0.1\tlocalhost\n"                      \
	"::1\tlocalhost ip6-localhost ip6-loopback\n" \
	"fe00::\tip6-localnet\n"                      \
	"ff00::\tip6-mcastprefix\n"                   \
	"ff02::1\tip6-allnodes\n"                     \
	"ff02::2\tip6-allrouters\n"

_Static_assert(sizeof(LOOPBACK) + 160 <= HOSTS_SIZE, "the text fits");

int hosts_text(char text[HOSTS_SIZE], const char *hostname)
{
	size_t label = strcspn(hostname, ".");
	int n;

	/* A name with a domain also resolves without the domain. */
	n = hostname[label]
		    ? snprintf(text, HOSTS_SIZE, LOOPBACK "127.0.0.1\t%s %.*s\n",
			       hostname, (int)label, hostname)
		    : snprintf(text, HOSTS_SIZE, LOOPBACK "127.0.0.1\t%s\n", hostname);
	return n < 0 || n >= HOSTS_SIZE ? -ENAMETOOLONG : n;
}

int hosts_write(const char *upper, const char *hostname)
{
	char text[HOSTS_SIZE], path[64];
	AUTO_CLOSE int fd = -1;
	int n = hosts_text(text, hostname);

	if (n < 0 ||
	    snprintf(path, sizeof(path), "%s/etc/hosts", upper) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	return fd < 0 ? -errno : fd_write_all(fd, text, (size_t)n);
}
