/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port.c - a stream to a port of the sandbox's: the platform's, or by a tool of the image's
 *
 * Whether somebody listens there is looked up first, since a tool says no more than that it
 * failed. The other end of the stream that is handed out is the stdin and stdout of the tool.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "keeper/hand.h"
#include "keeper/work.h"

#define LOOK_SECS 20

/* For `sh -c`, with the address, the port and the name of the tool. */
static const char script_connect[] =
	"case $3 in\n"
	"socat) exec socat - \"TCP:$1:$2\";;\n"
	"bash) exec bash -c 'exec 3<>\"/dev/tcp/$0/$1\" || exit 1; cat <&3 & cat >&3; "
	"exec 3>&-; wait' \"$1\" \"$2\";;\n"
	"nc) exec nc \"$1\" \"$2\";;\n"
	"esac\n";

/* Listens somebody, and by what can we get there? "yes TOOL", "no", or "" without /proc. */
static int look(uint16_t port, bool ipv6, char *tool, size_t size,
		struct warren_error *err)
{
	AUTO_BUF struct buf script = BUF_INIT(4096), out = BUF_INIT(1U << 20);
	int r;

	/* An IPv6 socket may take IPv4 as well: both lists count for the first try. */
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
	r = hand_run("", &script, &out, LOOK_SECS, err);
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
				 place.name);
	return 0;
}

static int connect_inside(const struct proto_connect *msg, int *ret_fd,
			  struct warren_error *err)
{
	char port[8], tool[16] = "";
	const char *argv[] = { inside.shell,
			       "-c",
			       script_connect,
			       "sh",
			       msg->ipv6 ? "::1" : "127.0.0.1",
			       port,
			       tool,
			       NULL };
	int ends[2], r = look(msg->port, msg->ipv6, tool, sizeof(tool), err);

	if (r < 0)
		return r;
	(void)snprintf(port, sizeof(port), "%u", msg->port);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return error_errno(err, errno, "make a stream");
	r = child_start(argv, NULL, ends[1], ends[1], -1, -1);
	(void)close(ends[1]);
	if (r < 0) {
		(void)close(ends[0]);
		return error_errno(err, -r, "connect");
	}
	*ret_fd = ends[0];
	return 0;
}

void port_work(const struct work *w, const struct proto_connect *msg)
{
	struct warren_error err = WARREN_ERROR_INIT;
	int fd = -1;
	int r = place.platform->connect && !msg->ipv6
			? place.platform->connect(&place, msg->port, &fd, &err)
			: connect_inside(msg, &fd, &err);

	work_reply(w, r < 0 ? r : 0, 0, fd, r < 0 && r != -ECONNREFUSED ? err.msg : NULL);
	if (fd >= 0)
		(void)close(fd);
}
