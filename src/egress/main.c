/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - warren-egress: the process that connects sandboxes to the outside
 *
 *	warren-egress [--dns-servers ADDRESS[:PORT],...]
 *
 * The service, or `warren run`, starts it with descriptor EGRESS_FD, over which it gets
 * its requests (proto/egress_proto.h). It exits when that connection ends. It parses what
 * sandboxes and servers send, so it has no privileges, and confines itself before it
 * reads anything: it can read the configuration of the resolver and certificates, and
 * cannot write files or execute programs.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "egress/control.h"
#include "os/caps.h"
#include "os/landlock.h"
#include "os/seccomp.h"

static int egress_main_limits(struct warren_error *err)
{
	const struct rlimit none = { 0 };
	struct rlimit files;

	if (setrlimit(RLIMIT_CORE, &none) < 0)
		return error_errno(err, errno, "disable core dumps");
	/* Each connection needs two descriptors. */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	return 0;
}

static int egress_main_confine(struct warren_error *err)
{
	/*
	 * /etc/resolv.conf may be a link to one of these; then certificates. c-ares takes
	 * random numbers from the last one, and predictable ones without it.
	 */
	static const char *const paths[] = { "/etc",
					     "/run/systemd/resolve",
					     "/run/NetworkManager",
					     "/run/resolvconf",
					     "/usr/lib/ssl",
					     "/usr/share/ca-certificates",
					     "/dev/urandom",
					     NULL };
	int r;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return error_errno(err, errno, "prctl");
	r = caps_reduce(0, err);
	if (r == 0)
		r = landlock_restrict_files(paths, err);
	return r < 0 ? r : seccomp_load(err);
}

static int egress_main_serve(const char *dns_servers, struct warren_error *err)
{
	struct net_loop *loop = NULL;
	struct control *c = NULL;
	int r = egress_main_limits(err);

	if (r == 0)
		r = loop_new(&loop, err);
	if (r == 0)
		r = egress_main_confine(err);
	if (r == 0)
		r = control_new(loop, EGRESS_FD, dns_servers, &c, err);
	if (r == 0)
		loop_run(loop);
	c = control_free(c);
	loop = loop_free(loop);
	return r;
}

int main(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	const char *dns_servers = NULL;

	if (argc == 3 && strcmp(argv[1], "--dns-servers") == 0) {
		dns_servers = argv[2];
	} else if (argc != 1) {
		(void)fprintf(stderr, "usage: warren-egress [--dns-servers LIST]\n");
		return 2;
	}
	(void)signal(SIGPIPE, SIG_IGN);
	if (fcntl(EGRESS_FD, F_SETFD, FD_CLOEXEC) < 0) {
		(void)fprintf(stderr, "warren-egress: the service starts this program\n");
		return 2;
	}
	if (egress_main_serve(dns_servers, &err) < 0) {
		(void)fprintf(stderr, "warren-egress: %s\n", err.msg);
		return 1;
	}
	return 0;
}
