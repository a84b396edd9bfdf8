/* SPDX-License-Identifier: Apache-2.0 */
/*
 * egress_capture.c - a network namespace whose connections are captured, for tests
 *
 * Creates the namespace, sends the two sockets of os/capture.h over descriptor 3, and
 * stays until its standard input ends.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "os/capture.h"
#include "os/ns.h"

int main(void)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct capture c = CAPTURE_INIT;
	int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	char byte;

	if (pidfd < 0 || unshare(CLONE_NEWNET) < 0) {
		(void)fprintf(stderr, "egress_capture: %s\n", strerror(errno));
		return 1;
	}
	if (ns_loopback(true, &err) < 0 || capture_open(pidfd, &c, &err) < 0) {
		(void)fprintf(stderr, "egress_capture: %s\n", err.msg);
		return 1;
	}
	if (fd_send(3, "x", 1, (const int[]){ c.tcp, c.udp }, 2) < 0)
		return 1;
	(void)close(3);
	capture_done(&c);
	(void)!read(0, &byte, 1);
	return 0;
}
