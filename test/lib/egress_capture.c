/* SPDX-License-Identifier: Apache-2.0 */
/*
 * egress_capture.c - a network namespace whose connections are captured, for tests
 *
 * Creates the namespace, sends the two sockets of os/capture.h over descriptor 3, and
 * stays until its standard input ends.
 */
#include <sched.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "os/capture.h"
#include "os/ns.h"

/* This runs outside the namespace, like the creator of a sandbox. */
static int capture_and_send(int pidfd, int ready)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct capture c = CAPTURE_INIT;
	char byte;

	if (read(ready, &byte, 1) != 1)
		return 1;
	if (capture_open(pidfd, &c, &err) < 0) {
		(void)fprintf(stderr, "egress_capture: %s\n", err.msg);
		return 1;
	}
	return fd_send(3, "x", 1, (const int[]){ c.tcp, c.udp }, 2) < 0;
}

int main(void)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	int ready[2], status = 1;
	char byte;
	pid_t pid;

	if (pidfd < 0 || pipe(ready) < 0)
		return 1;
	pid = fork();
	if (pid == 0) {
		(void)close(ready[1]);
		_exit(capture_and_send(pidfd, ready[0]));
	}
	(void)close(3);
	if (pid < 0 || unshare(CLONE_NEWNET) < 0 || ns_loopback(true, &err) < 0 ||
	    write(ready[1], "x", 1) != 1) {
		(void)fprintf(stderr, "egress_capture: no namespace: %s\n", err.msg);
		return 1;
	}
	if (waitpid(pid, &status, 0) != pid || status != 0)
		return 1;
	(void)!read(0, &byte, 1);
	return 0;
}
