/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c - warren-egress: the process that connects sandboxes to the outside
 *
 *	warren-egress [--user UID:GID] [--owner UID:GID] [--dns-servers LIST]
 *		[--authority FILE] [--ca-file FILE] [--bundle FILE]
 *		[--lookups-per-second N]
 *
 * --user is the user to become, if root starts the program. --owner is the user of the
 * files, if it is another one. LIST is ADDRESS[:PORT],...
 * --authority is the file of the certificate authority (authority.h), which is created if
 * it is missing; without it, no TLS is terminated. --ca-file contains certificates of
 * authorities that are trusted for servers, in addition to those of the system. --bundle
 * is the file to which the certificates that sandboxes trust are written.
 * --lookups-per-second is how many names are resolved for each sandbox in a second.
 *
 * The service, or `warren run`, starts the program with descriptor EGRESS_FD, over which
 * it receives requests (proto/egress_proto.h). It exits when that connection ends. It
 * parses what sandboxes and servers send, so it has no privileges, and confines itself
 * before it reads any of this: it can read the configuration of the resolver and
 * certificates, and cannot write files or execute programs.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/parse.h"
#include "egress/authority.h"
#include "egress/control.h"
#include "egress/lookup.h"
#include "egress/terminate.h"
#include "egress/trust.h"
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
	 * Directories to which /etc/resolv.conf may be a link; then those of
	 * certificates. c-ares reads random numbers from the last path; without it, they
	 * would be predictable.
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
	r = caps_drop_all(err);
	/*
	 * It exits when its connection ends, but not while it is stopped. So the kernel
	 * ends it with the thread that started it, which exists as long as its process.
	 */
	if (r == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		r = error_errno(err, errno, "prctl");
	if (r == 0)
		r = landlock_restrict_files(paths, err);
	return r < 0 ? r : seccomp_load(err);
}

struct egress_main_words {
	const char *user, *owner;
	const char *dns_servers, *authority, *ca_file, *bundle, *lookups;
};

/*
 * Create the files that are missing. Without them, some rules cannot be applied, and are
 * refused. Sandboxes that do not need them must keep their network, so the program
 * continues even if the disk is full. False: there is no authority.
 */
static bool egress_main_create(const struct egress_main_words *w)
{
	struct warren_error err = WARREN_ERROR_INIT;

	if (authority_create(w->authority, &err) < 0) {
		(void)fprintf(stderr, "warren-egress: %s; TLS is not terminated\n",
			      err.msg);
		return false;
	}
	if (w->bundle && trust_write(w->bundle, w->authority, &err) < 0)
		(void)fprintf(stderr,
			      "warren-egress: %s; sandboxes get the certificates from "
			      "before, if there are any\n",
			      err.msg);
	return true;
}

/* Read the files that the process cannot open later. */
static int egress_main_terminate(const struct egress_main_words *w,
				 struct terminate **ret, struct warren_error *err)
{
	char pem[AUTHORITY_FILE_MAX];
	ssize_t n;
	int r;

	if (!w->authority || !egress_main_create(w))
		return 0;
	n = fd_read_file_at(AT_FDCWD, w->authority, pem, sizeof(pem));
	if (n < 0)
		return error_errno(err, (int)-n, "read '%s'", w->authority);
	r = terminate_new(pem, (size_t)n, w->ca_file, ret, err);
	explicit_bzero(pem, sizeof(pem));
	return r < 0 ? error_wrap(err, "use '%s'", w->authority) : 0;
}

struct egress_main_id {
	uid_t uid;
	gid_t gid;
};

static int egress_main_parse_id(const char *option, const char *text,
				struct egress_main_id *ret, struct warren_error *err)
{
	char rest;

	if (sscanf(text, "%u:%u%c", &ret->uid, &ret->gid, &rest) != 2)
		return error_set(err, EINVAL, "%s: '%.40s' is not UID:GID", option, text);
	return 0;
}

/* Keep only the capabilities that are needed to become another user. */
static int egress_main_drop_root(struct warren_error *err)
{
	int r = caps_bound(0, err);

	if (r == 0)
		r = caps_reduce(1ULL << CAP_SETUID | 1ULL << CAP_SETGID, err);
	if (r == 0 && setgroups(0, NULL) < 0)
		r = error_errno(err, errno, "leave all groups");
	return r;
}

/*
 * Create and read the files as their owner. Then become the user for good. Only root can
 * change users; if another user starts the program, nothing changes.
 */
static int egress_main_files(const struct egress_main_words *w, struct terminate **ret,
			     struct warren_error *err)
{
	struct egress_main_id user = { 0 }, owner;
	int r = w->user ? egress_main_parse_id("--user", w->user, &user, err) : 0;

	owner = user;
	if (r == 0 && w->owner)
		r = egress_main_parse_id("--owner", w->owner, &owner, err);
	if (r < 0)
		return r;
	if (geteuid() != 0 || user.uid == 0)
		return egress_main_terminate(w, ret, err);
	r = egress_main_drop_root(err);
	if (r == 0 && (setresgid((gid_t)-1, owner.gid, (gid_t)-1) < 0 ||
		       setresuid((uid_t)-1, owner.uid, (uid_t)-1) < 0))
		r = error_errno(err, errno, "become user %u", owner.uid);
	if (r == 0)
		r = egress_main_terminate(w, ret, err);
	if (r == 0 && (setresuid((uid_t)-1, 0, (uid_t)-1) < 0 ||
		       setresgid(user.gid, user.gid, user.gid) < 0 ||
		       setresuid(user.uid, user.uid, user.uid) < 0))
		r = error_errno(err, errno, "become user %u", user.uid);
	return r;
}

/* The number of bytes that all TCP sockets of this machine may hold; 0: not known. */
static uint64_t egress_main_tcp_memory(void)
{
	char text[128];
	unsigned long long pages;

	if (fd_read_file_at(AT_FDCWD, "/proc/sys/net/ipv4/tcp_mem", text, sizeof(text)) <
		    0 ||
	    sscanf(text, "%*u %*u %llu", &pages) != 1)
		return 0;
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int egress_main_serve(const struct egress_main_words *w, struct warren_error *err)
{
	struct egress_options options = { .dns_servers = w->dns_servers,
					  .tcp_memory = egress_main_tcp_memory() };
	struct net_loop *loop = NULL;
	struct control *c = NULL;
	int r = egress_main_limits(err);

	if (r == 0 && w->lookups)
		r = parse_u64(w->lookups, LOOKUP_RATE_MAX, &options.lookups_per_second,
			      err);
	if (r == 0)
		r = egress_main_files(w, &options.terminate, err);
	if (r == 0)
		r = loop_new(&loop, err);
	if (r == 0)
		r = egress_main_confine(err);
	if (r == 0)
		r = control_new(loop, EGRESS_FD, &options, &c, err);
	if (r == 0)
		loop_run(loop);
	c = control_free(c);
	loop = loop_free(loop);
	options.terminate = terminate_free(options.terminate);
	return r;
}

/* Parse the options, each of which has a value. Return false for an unknown one. */
static bool egress_main_parse(int argc, char **argv, struct egress_main_words *w)
{
	const struct {
		const char *name;
		const char **value;
	} table[] = {
		{ "--user", &w->user },
		{ "--owner", &w->owner },
		{ "--dns-servers", &w->dns_servers },
		{ "--authority", &w->authority },
		{ "--ca-file", &w->ca_file },
		{ "--bundle", &w->bundle },
		{ "--lookups-per-second", &w->lookups },
	};

	for (int i = 1; i < argc; i += 2) {
		size_t k = 0;

		while (k < ARRAY_SIZE(table) && strcmp(table[k].name, argv[i]) != 0)
			k++;
		if (k == ARRAY_SIZE(table) || i + 1 == argc)
			return false;
		*table[k].value = argv[i + 1];
	}
	return true;
}

int main(int argc, char **argv)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct egress_main_words w = { 0 };
	int r;

	if (!egress_main_parse(argc, argv, &w)) {
		(void)fprintf(
			stderr,
			"usage: warren-egress [--user UID:GID] [--owner UID:GID] "
			"[--dns-servers LIST] [--authority FILE] [--ca-file FILE] [--bundle FILE] "
			"[--lookups-per-second N]\n");
		return 2;
	}
	(void)signal(SIGPIPE, SIG_IGN);
	if (fcntl(EGRESS_FD, F_SETFD, FD_CLOEXEC) < 0) {
		(void)fprintf(stderr, "warren-egress: the service starts this program\n");
		return 2;
	}
	r = egress_main_serve(&w, &err);
	if (r < 0) {
		(void)fprintf(stderr, "warren-egress: %s\n", err.msg);
		return 1;
	}
	return 0;
}
