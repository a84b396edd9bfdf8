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

int hosts_write(const char *upper, const char *hostname)
{
	char text[sizeof(LOOPBACK) + 160], path[64];
	size_t label = strcspn(hostname, ".");
	AUTO_CLOSE int fd = -1;
	int n;

	/* A name with a domain also resolves without the domain. */
	n = hostname[label]
		    ? snprintf(text, sizeof(text), LOOPBACK "127.0.0.1\t%s %.*s\n",
			       hostname, (int)label, hostname)
		    : snprintf(text, sizeof(text), LOOPBACK "127.0.0.1\t%s\n", hostname);
	if (n < 0 || (size_t)n >= sizeof(text) ||
	    snprintf(path, sizeof(path), "%s/etc/hosts", upper) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	return fd < 0 ? -errno : fd_write_all(fd, text, (size_t)n);
}
