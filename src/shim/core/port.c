/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port.c - connect to a port of the sandbox, with Warren's program inside or a tool of
 * the image
 *
 * The client gets one end of a stream; the other end is stdin and stdout of that program.
 * Warren's program (agent/guest/relay.c) reports the result of connecting. A tool reports
 * only that it failed, so the shim checks first whether a process listens on the port.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/clock.h"
#include "shim/core/shell_pool.h"
#include "shim/core/workers.h"

#define LOOK_SECS 20

/* Arguments for `sh -c`: the address, the port and the name of the tool. */
static const char script_connect[] =
	"case $3 in\n"
	"socat) exec socat - \"TCP:$1:$2\";;\n"
	"bash) exec bash -c 'exec 3<>\"/dev/tcp/$0/$1\" || exit 1; cat <&3 & cat >&3; "
	"exec 3>&-; wait' \"$1\" \"$2\";;\n"
	"nc) exec nc \"$1\" \"$2\";;\n"
	"esac\n";

/*
 * Does a process listen there, and which tool can connect? The answer is "yes TOOL",
 * "no", or "" without /proc.
 */
static int port_look(uint16_t port, bool ipv6, char *tool, size_t size,
		     struct warren_error *err)
{
	AUTO_BUF struct buf script = BUF_INIT(4096), out = BUF_INIT(1U << 20);
	int r;

	/* An IPv6 socket may also accept IPv4 connections, so both lists are read for the
	 * first try. */
	buf_printf(&script,
		   "y=no\n"
		   "for f in /proc/net/tcp6%s; do while read -r n l r s x; do\n"
		   "case $l.$s in *:%04X.0A) y=yes;; esac\n"
		   "done <$f; done 2>/dev/null\n"
		   "[ -r /proc/net/tcp ] || y=yes\n"
		   "for t in socat bash nc; do command -v $t >/dev/null 2>&1 && "
		   "break; t=; done\n"
		   "echo \"$y $t\"",
		   ipv6 ? "" : " /proc/net/tcp", port);
	r = shell_pool_run("", &script, &out, LOOK_SECS, err);
	if (r < 0)
		return r;
	buf_add(&out, "", 1);
	if (strncmp(out.data, "yes", 3) != 0)
		return error_errno(err, ECONNREFUSED, "connect");
	(void)snprintf(tool, size, "%.*s", (int)strcspn(out.data + 4, "\n"),
		       out.data + 4);
	if (!tool[0])
		return error_set(err, EOPNOTSUPP,
				 "%s: a port cannot be reached: the image has none of "
				 "socat, bash and nc",
				 this_sandbox.name);
	return 0;
}

/*
 * Read the relay's result of connecting: 0 or -errno. -EREMOTEIO: it ended without a
 * result.
 */
static int port_hear(int said, int outcome, struct warren_error *err)
{
	uint64_t until = clock_now() + (uint64_t)shim_sandbox_patience() * 1000000000;
	struct shim_outcome o;
	int code = 0;

	for (;;) {
		struct pollfd p = { .fd = said, .events = POLLIN };
		ssize_t n;

		if (clock_now() >= until)
			return error_set(err, ETIMEDOUT,
					 "%s: connect: the sandbox does not answer",
					 this_sandbox.name);
		if (poll(&p, 1, WORK_SIGN_MS) <= 0) {
			work_sign();
			continue;
		}
		n = read(said, &code, sizeof(code));
		if (n == sizeof(code))
			break;
		if (read(outcome, &o, sizeof(o)) == sizeof(o) &&
		    o.verdict == SHIM_NOT_STARTED && o.err.code > 0) {
			*err = o.err;
			err->msg[sizeof(err->msg) - 1] = '\0';
			return -err->code;
		}
		return error_set(err, EREMOTEIO, "%s: connect: nothing inside answers",
				 this_sandbox.name);
	}
	if (code < 0 || code > 4095)
		code = EPROTO;
	return code ? error_errno(err, code, "connect") : 0;
}

/* Start @argv with the stream and its other descriptors; return its pid or -errno. */
static int port_start(const char *const *argv, int said, int outcome, int *ret_fd,
		      struct warren_error *err)
{
	int ends[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return error_errno(err, errno, "create a stream");
	r = child_start(argv, NULL, ends[1], ends[1], said, outcome);
	(void)close(ends[1]);
	if (r < 0) {
		(void)close(ends[0]);
		return error_errno(err, -r, "connect");
	}
	*ret_fd = ends[0];
	return r;
}

static int connect_by_relay(const char *to, const char *port, int *ret_fd,
			    struct warren_error *err)
{
	const char *argv[] = { this_sandbox.helper, "connect", to, port, NULL };
	int said[2] = { -1, -1 }, outcome[2] = { -1, -1 }, fd = -1, r;

	if (pipe2(said, O_CLOEXEC) < 0 || pipe2(outcome, O_CLOEXEC | O_NONBLOCK) < 0)
		r = error_errno(err, errno, "create a pipe");
	else
		r = port_start(argv, said[1], outcome[1], &fd, err);
	for (int i = 1; i >= 0; i--) {
		if (i == 0 && r >= 0)
			r = port_hear(said[0], outcome[0], err);
		if (said[i] >= 0)
			(void)close(said[i]);
		if (outcome[i] >= 0)
			(void)close(outcome[i]);
	}
	if (r < 0 && fd >= 0)
		(void)close(fd);
	if (r >= 0)
		*ret_fd = fd;
	return r;
}

static int connect_by_tool(const struct proto_connect *msg, const char *to,
			   const char *port, int *ret_fd, struct warren_error *err)
{
	char tool[16] = "";
	const char *argv[] = { inside.shell, "-c", script_connect, "sh",
			       to,           port, tool,           NULL };
	int r = port_look(msg->port, msg->ipv6, tool, sizeof(tool), err);

	return r < 0 ? r : port_start(argv, -1, -1, ret_fd, err);
}

void port_work(const struct work *w, const struct proto_connect *msg)
{
	const char *to = msg->ipv6 ? "::1" : "127.0.0.1";
	struct warren_error err = WARREN_ERROR_INIT;
	char port[8];
	int fd = -1, r;

	(void)snprintf(port, sizeof(port), "%u", msg->port);
	r = this_sandbox.helper ? connect_by_relay(to, port, &fd, &err)
				: connect_by_tool(msg, to, port, &fd, &err);
	work_reply(w, r < 0 ? r : 0, 0, fd, r < 0 && r != -ECONNREFUSED ? err.msg : NULL);
	if (fd >= 0)
		(void)close(fd);
}
