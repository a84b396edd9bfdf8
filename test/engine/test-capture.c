/* SPDX-License-Identifier: Apache-2.0 */
/* test-capture.c - the network traffic of a sandbox arrives at two sockets outside */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "lib/native-sandbox.h"
#include "os/capture.h"

#define WAIT_MS 20000

/* Wait until @fd is readable. */
static void await_input(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	EQ(poll(&p, 1, WAIT_MS), 1);
}

/* Format the address of a socket: "8.8.8.8:22", "2001:db8::1:80". */
static const char *own_address(int fd)
{
	static char text[INET6_ADDRSTRLEN + 8];
	struct sockaddr_in6 a = { 0 };
	socklen_t n = sizeof(a);
	char address[INET6_ADDRSTRLEN] = "";

	OK(getsockname(fd, (struct sockaddr *)&a, &n) == 0);
	if (a.sin6_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&a.sin6_addr))
		OK(inet_ntop(AF_INET, &a.sin6_addr.s6_addr[12], address,
			     sizeof(address)));
	else
		OK(inet_ntop(AF_INET6, &a.sin6_addr, address, sizeof(address)));
	(void)snprintf(text, sizeof(text), "%s:%u", address, ntohs(a.sin6_port));
	return text;
}

static void capture(struct warren_sandbox *sb, int fds[WARREN_CAPTURE_FDS])
{
	struct warren_error err = WARREN_ERROR_INIT;

	GOOD(warren_capture_network(sb, fds, &err));
	EQ(fcntl(fds[0], F_GETFD), FD_CLOEXEC);
	EQ(fcntl(fds[1], F_GETFD), FD_CLOEXEC);
}

static void close_all(int fds[WARREN_CAPTURE_FDS])
{
	(void)close(fds[0]);
	(void)close(fds[1]);
}

static struct warren_exec *start_bash(struct warren_sandbox *sb, const char *script)
{
	const char *argv[] = { "bash", "-c", script, NULL };

	return sandbox_start(sb, &(struct warren_exec_spec){ .argv = argv,
							     .out = WARREN_STDIO_PIPE,
							     .err = WARREN_STDIO_PIPE });
}

/* Connect from inside to @host and @port, and check what arrives outside. */
static void expect_connection(struct warren_sandbox *sb, int tcp, const char *host,
			      const char *port)
{
	char script[256], want[128];
	struct warren_exec *ex;
	struct said said;
	int fd;

	(void)snprintf(script, sizeof(script), "exec 3<>/dev/tcp/%s/%s; cat <&3", host,
		       port);
	ex = start_bash(sb, script);
	await_input(tcp);
	fd = accept4(tcp, NULL, NULL, SOCK_CLOEXEC);
	OK(fd >= 0);
	(void)snprintf(want, sizeof(want), "%s:%s", host, port);
	STREQ(own_address(fd), want);
	EQ(write(fd, "from outside", 12), 12);
	(void)close(fd);
	said = sandbox_finish(ex, NULL, 0);
	EQ(said.res.exit_code, 0);
	STREQ(said.out, "from outside");
}

TEST(a_connection_to_any_address_arrives_outside)
{
	int fds[WARREN_CAPTURE_FDS];

	BEGIN(0);
	capture(sb, fds);
	expect_connection(sb, fds[0], "8.8.8.8", "22");
	expect_connection(sb, fds[0], "198.18.0.7", "443");
	expect_connection(sb, fds[0], "10.0.0.1", "1");
	expect_connection(sb, fds[0], "169.254.169.254", "80");
	expect_connection(sb, fds[0], "2001:db8::1", "65535");
	expect_connection(sb, fds[0], "fd77:6172:7265:6e::5", "53");
	close_all(fds);
	END();
}

TEST(a_connection_to_the_sandbox_itself_stays_inside)
{
	int fds[WARREN_CAPTURE_FDS];
	struct pollfd p = { .events = POLLIN };

	BEGIN(0);
	capture(sb, fds);
	STREQ(sandbox_says(sb, "python3 -c \"\n"
			       "import socket\n"
			       "for a in ('127.0.0.1', '127.1.2.3', '::1'):\n"
			       "  f = socket.AF_INET6 if ':' in a else socket.AF_INET\n"
			       "  s = socket.create_server((a, 8080), family=f)\n"
			       "  c = socket.create_connection((a, 8080))\n"
			       "  s.accept()[0].sendall(b'inside ')\n"
			       "  print(c.recv(20).decode(), end='')\n"
			       "\""),
	      "inside inside inside ");
	p.fd = fds[0];
	EQ(poll(&p, 1, 0), 0);
	close_all(fds);
	END();
}

TEST(a_dns_query_to_any_server_arrives_outside)
{
	int fds[WARREN_CAPTURE_FDS];

	BEGIN(0);
	capture(sb, fds);
	for (size_t i = 0; i < 3; i++) {
		static const char *const servers[] = { "9.9.9.9", "127.0.0.1",
						       "2001:db8::53" };
		char script[128], query[16] = "";
		struct sockaddr_in6 from;
		socklen_t n = sizeof(from);

		(void)snprintf(script, sizeof(script), "echo -n query >/dev/udp/%s/53",
			       servers[i]);
		EQ(sandbox_finish(start_bash(sb, script), NULL, 0).res.exit_code, 0);
		await_input(fds[1]);
		EQ(recvfrom(fds[1], query, sizeof(query), 0, (struct sockaddr *)&from,
			    &n),
		   5);
		STREQ(query, "query");
	}
	close_all(fds);
	END();
}

TEST(dns_by_tcp_to_the_sandbox_itself_arrives_outside_unless_it_is_served_inside)
{
	int fds[WARREN_CAPTURE_FDS];
	struct pollfd p = { .events = POLLIN };

	BEGIN(0);
	capture(sb, fds);
	expect_connection(sb, fds[0], "127.0.0.1", "53");
	expect_connection(sb, fds[0], "127.0.0.53", "53");
	expect_connection(sb, fds[0], "::1", "53");
	STREQ(sandbox_says(sb, "python3 -c \"\n"
			       "import socket\n"
			       "for a in ('127.0.0.1', '::1', '::'):\n"
			       "  f = socket.AF_INET6 if ':' in a else socket.AF_INET\n"
			       "  s = socket.create_server((a, 53), family=f)\n"
			       "  c = socket.create_connection((a, 53))\n"
			       "  s.accept()[0].sendall(b'inside ')\n"
			       "  print(c.recv(20).decode(), end='')\n"
			       "  s.close()\n"
			       "\""),
	      "inside inside inside ");
	p.fd = fds[0];
	EQ(poll(&p, 1, 0), 0);
	/* The rules are still there after another capture, and once. */
	close_all(fds);
	capture(sb, fds);
	expect_connection(sb, fds[0], "127.0.0.1", "53");
	close_all(fds);
	END();
}

TEST(other_udp_is_refused_at_once)
{
	int fds[WARREN_CAPTURE_FDS];

	BEGIN(0);
	capture(sb, fds);
	STREQ(sandbox_says(sb, "python3 -c \"\n"
			       "import errno, socket\n"
			       "for a in ('192.0.2.1', '2001:db8::1'):\n"
			       "  f = socket.AF_INET6 if ':' in a else socket.AF_INET\n"
			       "  s = socket.socket(f, socket.SOCK_DGRAM)\n"
			       "  s.connect((a, 443)); s.send(b'quic')\n"
			       "  try: s.recv(1)\n"
			       "  except OSError as e: print(errno.errorcode[e.errno])\n"
			       "\""),
	      "ECONNREFUSED\nECONNREFUSED");
	close_all(fds);
	END();
}

/* The receiver inside shows that what is not refused would arrive. */
TEST(multicast_and_broadcast_fail_unless_they_stay_inside)
{
	int fds[WARREN_CAPTURE_FDS];

	BEGIN(0);
	capture(sb, fds);
	STREQ(sandbox_says(
		      sb,
		      "python3 -c \"\n"
		      "import errno\n"
		      "from socket import *\n"
		      "def send(own, to):\n"
		      "  s = socket(AF_INET6 if ':' in to else AF_INET, SOCK_DGRAM)\n"
		      "  s.setsockopt(SOL_SOCKET, SO_BROADCAST, 1)\n"
		      "  if own: s.bind((own, 0))\n"
		      "  try: return s.sendto(b'datagram', (to, 5353))\n"
		      "  except OSError as e: return errno.errorcode[e.errno]\n"
		      "for a in ('224.0.0.251', '239.255.255.250', '255.255.255.255',\n"
		      "          'ff02::fb', 'ff0e::1', '240.0.0.1'):\n"
		      "  print(send(None, a), end=' ')\n"
		      "r = socket(AF_INET, SOCK_DGRAM)\n"
		      "r.bind(('', 5353))\n"
		      "r.setsockopt(IPPROTO_IP, IP_ADD_MEMBERSHIP,\n"
		      "             inet_aton('224.0.0.251') + inet_aton('127.0.0.1'))\n"
		      "print(send('127.0.0.1', '224.0.0.251'), r.recv(20).decode())\n"
		      "\""),
	      "EPERM EPERM EPERM EPERM EPERM 8 8 datagram");
	close_all(fds);
	END();
}

/* Send an echo request from inside, as a process with all capabilities there could. */
static int ping(const struct warren_sandbox *sb, const char *address)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	static const uint8_t echo[8] = { 8, 0, 0xf7, 0xff };
	char path[64], answer[128];
	struct pollfd p = { .events = POLLIN };
	int ns, r = -1;

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)init_of(sb));
	ns = open(path, O_RDONLY | O_CLOEXEC);
	OK(ns >= 0 && setns(ns, CLONE_NEWNET) == 0);
	p.fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);
	OK(p.fd >= 0 && inet_pton(AF_INET, address, &to.sin_addr) == 1);
	EQ(setsockopt(p.fd, IPPROTO_IP, 11 /* IP_RECVERR */, &(int){ 1 }, sizeof(int)),
	   0);
	EQ(connect(p.fd, (struct sockaddr *)&to, sizeof(to)), 0);
	OK(send(p.fd, echo, sizeof(echo), 0) == sizeof(echo));
	/* The request itself arrives too: this raw socket gets all ICMP. */
	for (int i = 0; i < 3 && poll(&p, 1, WAIT_MS) == 1; i++) {
		ssize_t n = recv(p.fd, answer, sizeof(answer), MSG_DONTWAIT);

		if (n < 0)
			return errno;
		r = (uint8_t)answer[20] == 0 ? 0 : r; /* an echo reply */
		if (r == 0)
			return r;
	}
	return r;
}

TEST(an_echo_request_is_rejected)
{
	int fds[WARREN_CAPTURE_FDS];

	BEGIN(0);
	capture(sb, fds);
	EQ(ping(sb, "127.0.0.1"), 0);
	EQ(ping(sb, "192.0.2.1"), EHOSTUNREACH);
	close_all(fds);
	END();
}

TEST(without_the_sockets_the_network_is_closed)
{
	int fds[WARREN_CAPTURE_FDS];
	struct said said;

	BEGIN(0);
	capture(sb, fds);
	expect_connection(sb, fds[0], "8.8.8.8", "22");
	close_all(fds);
	said = sandbox_finish(start_bash(sb, "exec 3<>/dev/tcp/8.8.8.8/22"), NULL, 0);
	EQ(said.res.exit_code, 1);
	OK(strstr(said.err, "Connection refused"));
	/* The network can be captured again with new sockets. */
	capture(sb, fds);
	expect_connection(sb, fds[0], "8.8.8.8", "22");
	close_all(fds);
	END();
}

TEST(a_network_can_be_captured_only_once_at_a_time)
{
	int fds[WARREN_CAPTURE_FDS], more[WARREN_CAPTURE_FDS];

	BEGIN(0);
	capture(sb, fds);
	EQ(warren_capture_network(sb, more, &err), -EADDRINUSE);
	expect_connection(sb, fds[0], "8.8.8.8", "22");
	close_all(fds);
	END();
}

TEST(nothing_is_captured_without_the_call)
{
	struct said said;

	BEGIN(0);
	said = sandbox_finish(start_bash(sb, "exec 3<>/dev/tcp/8.8.8.8/22"), NULL, 0);
	EQ(said.res.exit_code, 1);
	OK(strstr(said.err, "Network is unreachable"));
	END();
}

TEST(a_sandbox_without_a_network_can_be_captured)
{
	int fds[WARREN_CAPTURE_FDS];

	BEGIN(.network = WARREN_NETWORK_NONE);
	capture(sb, fds);
	expect_connection(sb, fds[0], "8.8.8.8", "22");
	close_all(fds);
	END();
}

TEST(the_callers_own_network_is_untouched)
{
	int fds[WARREN_CAPTURE_FDS];
	char before[64], after[64];

	BEGIN(0);
	ns_name(gettid(), "net", before, sizeof(before));
	capture(sb, fds);
	ns_name(gettid(), "net", after, sizeof(after));
	STREQ(after, before);
	OK(before[0]);
	close_all(fds);
	END();
}

/* Its creation is not complete when warren_create() returns. */
TEST(a_sandbox_for_one_exec_is_awaited_first)
{
	int fds[WARREN_CAPTURE_FDS];

	for (int i = 0; i < 10; i++) {
		BEGIN(.one_shot = true);
		capture(sb, fds);
		expect_connection(sb, fds[0], "8.8.8.8", "22");
		close_all(fds);
		END();
	}
}

TEST(the_network_of_the_caller_is_refused)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct capture c;
	int status = 0;
	pid_t pid = fork();

	/* Use a new network namespace, in case the capture succeeds. */
	if (pid == 0)
		_exit(unshare(CLONE_NEWNET) == 0 && capture_open(pidfd_open(getpid(), 0),
								 &c, &err) == -EINVAL
			      ? 0
			      : 1);
	OK(pid > 0 && waitpid(pid, &status, 0) == pid);
	EQ(status, 0);
}

TEST_MAIN()
