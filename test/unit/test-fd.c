/* SPDX-License-Identifier: Apache-2.0 */
/* test-fd.c - complete reads and writes, small files, descriptors over sockets */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "lib/tap.h"

#define BIG (1 << 20)

static size_t count_fds(void)
{
	size_t n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* A file with @text in it, whatever the current position. */
static char *file_of(const char *text, size_t n)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	char *path = NULL;

	OK(fd >= 0);
	EQ(write(fd, text, n), n);
	OK(asprintf(&path, "/proc/self/fd/%d", fd) > 0);
	return path;
}

static void pair(int ends[2])
{
	EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
}

/* ------------------------------------------------------- reading and writing */

TEST(all_data_passes_through_a_small_pipe)
{
	static char data[BIG], back[BIG];
	int ends[2];
	pid_t pid;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i * 31 >> 3);
	EQ(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		(void)close(ends[0]);
		_exit(fd_write_all(ends[1], data, sizeof(data)) == 0 ? 0 : 1);
	}
	(void)close(ends[1]);
	EQ(fd_read_all(ends[0], back, sizeof(back)), sizeof(back));
	EQ(memcmp(data, back, sizeof(data)), 0);
	EQ(fd_read_all(ends[0], back, sizeof(back)), 0);
	EQ(waitpid(pid, NULL, 0), pid);
}

TEST(a_file_is_read_to_its_end)
{
	char buf[16];
	int ends[2];

	EQ(pipe(ends), 0);
	EQ(fd_write_all(ends[1], "abc", 3), 0);
	(void)close(ends[1]);
	EQ(fd_read_all(ends[0], buf, sizeof(buf)), 3);
	EQ(memcmp(buf, "abc", 3), 0);
}

TEST(errors_are_returned_as_negative_errno)
{
	char buf[4];
	int ends[2];

	(void)signal(SIGPIPE, SIG_IGN);
	EQ(fd_write_all(-1, "x", 1), -EBADF);
	EQ(fd_read_all(-1, buf, 4), -EBADF);
	EQ(fd_write_all(-1, "x", 0), 0);
	EQ(pipe(ends), 0);
	(void)close(ends[0]);
	EQ(fd_write_all(ends[1], "x", 1), -EPIPE);
	EQ(fd_write_all(open("/dev/full", O_WRONLY | O_CLOEXEC), "x", 1), -ENOSPC);
}

TEST(a_file_is_read_as_text)
{
	char text[8];

	(void)memset(text, 'Z', sizeof(text));
	EQ(fd_read_file_at(AT_FDCWD, file_of("1234567", 7), text, sizeof(text)), 7);
	STREQ(text, "1234567");
	EQ(fd_read_file_at(AT_FDCWD, file_of("12345678", 8), text, sizeof(text)), -EFBIG);
	EQ(fd_read_file_at(AT_FDCWD, file_of("", 0), text, sizeof(text)), 0);
	STREQ(text, "");
	EQ(fd_read_file_at(AT_FDCWD, "/nonexistent/x", text, sizeof(text)), -ENOENT);
	EQ(fd_read_file_at(AT_FDCWD, "/", text, sizeof(text)), -EISDIR);
}

TEST(a_number_is_read_from_a_file)
{
	static const struct {
		const char *text;
		int r;
		uint64_t value;
	} cases[] = {
		{ "0\n", 0, 0 },
		{ "42", 0, 42 },
		{ "18446744073709551615\n", 0, UINT64_MAX },
		{ "18446744073709551616\n", -EINVAL, 0 },
		{ "", -EINVAL, 0 },
		{ "\n", -EINVAL, 0 },
		{ "max\n", -EINVAL, 0 },
		{ "-1\n", -EINVAL, 0 },
		{ " 1\n", -EINVAL, 0 },
		{ "1x\n", -EINVAL, 0 },
		{ "0x10\n", -EINVAL, 0 },
		{ "11111111111111111111111111111111111\n", -EFBIG, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t v = 77;
		int r = fd_read_u64_at(AT_FDCWD,
				       file_of(cases[i].text, strlen(cases[i].text)), &v);

		if (r != cases[i].r || v != (r < 0 ? 77 : cases[i].value))
			TAP_FAIL("'%s' gives %d and %ju", cases[i].text, r, (uintmax_t)v);
	}
}

TEST(the_number_after_a_key_is_read)
{
	static const char text[] = "oom_kill_disable 7\nunder_oom 1\noom_kill 3\nlast 9";
	char *path = file_of(text, sizeof(text) - 1);
	uint64_t v = 77;

	EQ(fd_read_key_at(AT_FDCWD, path, "oom_kill", &v), 0);
	EQ(v, 3);
	EQ(fd_read_key_at(AT_FDCWD, path, "oom_kill_disable", &v), 0);
	EQ(v, 7);
	EQ(fd_read_key_at(AT_FDCWD, path, "last", &v), 0);
	EQ(v, 9);
	EQ(fd_read_key_at(AT_FDCWD, path, "oom", &v), -ENOENT);
	EQ(fd_read_key_at(AT_FDCWD, path, "kill", &v), -ENOENT);
	EQ(fd_read_key_at(AT_FDCWD, file_of("", 0), "x", &v), -ENOENT);
	EQ(v, 9);
}

TEST(an_existing_file_is_written)
{
	char *path = file_of("", 0), text[32];

	EQ(fd_write_file_at(AT_FDCWD, path, "hello"), 0);
	EQ(fd_read_file_at(AT_FDCWD, path, text, sizeof(text)), 5);
	STREQ(text, "hello");
	EQ(fd_write_u64_at(AT_FDCWD, path, UINT64_MAX), 0);
	EQ(fd_read_file_at(AT_FDCWD, path, text, sizeof(text)), 20);
	STREQ(text, "18446744073709551615");
	EQ(fd_write_file_at(AT_FDCWD, "/tmp/warren-no-such-file", "x"), -ENOENT);
	EQ(access("/tmp/warren-no-such-file", F_OK), -1);
	EQ(fd_write_file_at(AT_FDCWD, "/dev/full", "x"), -ENOSPC);
}

/* ---------------------------------------------------------- descriptors over a socket */

TEST(a_message_carries_descriptors)
{
	int ends[2], in[2], fds[4] = { -1, -1, -1, -1 };
	size_t n = 4;
	char buf[16];

	pair(ends);
	EQ(pipe(in), 0);
	EQ(fd_send(ends[0], "hello", 5, in, 2), 0);
	EQ(fd_recv(ends[1], buf, sizeof(buf), fds, &n, 0), 5);
	EQ(memcmp(buf, "hello", 5), 0);
	EQ(n, 2);
	EQ(fcntl(fds[0], F_GETFD), FD_CLOEXEC);
	EQ(fcntl(fds[1], F_GETFD), FD_CLOEXEC);
	EQ(write(fds[1], "x", 1), 1);
	EQ(read(in[0], buf, 1), 1); /* it is the same pipe */
}

TEST(a_message_can_have_no_descriptors)
{
	int ends[2], fd = -1;
	size_t n = 1;
	char buf[16];

	pair(ends);
	EQ(fd_send(ends[0], "x", 1, NULL, 0), 0);
	EQ(fd_recv(ends[1], buf, sizeof(buf), &fd, &n, 0), 1);
	EQ(n, 0);
	EQ(fd, -1);
	n = 1;
	EQ(fd_recv(ends[1], buf, sizeof(buf), &fd, &n, MSG_DONTWAIT), -EAGAIN);
	(void)close(ends[0]);
	n = 1;
	EQ(fd_recv(ends[1], buf, sizeof(buf), &fd, &n, 0), 0); /* the end */
}

/* A message with descriptors that is too long is refused, and nothing stays open. */
TEST(a_message_that_is_too_long_leaves_nothing_open)
{
	int ends[2], in[2], fds[4];
	size_t n = 4, before;
	char buf[4];

	pair(ends);
	EQ(pipe(in), 0);
	EQ(fd_send(ends[0], "hello", 5, in, 2), 0);
	EQ(fd_send(ends[0], "next", 4, NULL, 0), 0);
	before = count_fds();
	EQ(fd_recv(ends[1], buf, sizeof(buf), fds, &n, 0), -EMSGSIZE);
	EQ(count_fds(), before);
	n = 4;
	EQ(fd_recv(ends[1], buf, sizeof(buf), fds, &n, 0),
	   4); /* the next message is complete */
	EQ(n, 0);
}

/* If there are more descriptors than requested, none is received. */
TEST(too_many_descriptors_leave_nothing_open)
{
	int ends[2], in[2], fds[2] = { -1, -1 };
	size_t n = 1, before;
	char buf[16];
	ssize_t r;

	pair(ends);
	EQ(pipe(in), 0);
	EQ(fd_send(ends[0], "hello", 5, in, 2), 0);
	before = count_fds();
	r = fd_recv(ends[1], buf, sizeof(buf), fds, &n, 0);
	EQ(r, -EMSGSIZE);
	EQ(count_fds(), before);
	EQ(fd_send(ends[0], "hello", 5, in, 2), 0);
	n = 0;
	r = fd_recv(ends[1], buf, sizeof(buf), NULL, &n, 0);
	EQ(r, -EMSGSIZE);
	EQ(count_fds(), before);
}

TEST(the_maximum_number_of_descriptors_can_be_sent)
{
	int ends[2], fds[FD_SEND_MAX + 1], got[FD_SEND_MAX + 1];
	size_t n = FD_SEND_MAX, before;
	char buf[4];

	pair(ends);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = ends[0];
	EQ(fd_send(ends[0], "x", 1, fds, FD_SEND_MAX + 1), -E2BIG);
	EQ(fd_send(ends[0], "x", 1, fds, FD_SEND_MAX), 0);
	EQ(fd_recv(ends[1], buf, sizeof(buf), got, &n, 0), 1);
	EQ(n, FD_SEND_MAX);
	/* Another sender may send more than that. */
	while (n > 0)
		(void)close(got[--n]);
	before = count_fds();
	{
		char space[CMSG_SPACE(40 * sizeof(int))] = { 0 };
		struct iovec iov = { .iov_base = (void *)"y", .iov_len = 1 };
		struct msghdr msg = { .msg_iov = &iov,
				      .msg_iovlen = 1,
				      .msg_control = space,
				      .msg_controllen = sizeof(space) };
		struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(40 * sizeof(int));
		for (int i = 0; i < 40; i++)
			((int *)(void *)CMSG_DATA(c))[i] = ends[0];
		EQ(sendmsg(ends[0], &msg, 0), 1);
	}
	n = FD_SEND_MAX;
	EQ(fd_recv(ends[1], buf, sizeof(buf), got, &n, 0), -EMSGSIZE);
	EQ(count_fds(), before);
}

TEST(a_missing_reader_is_an_error_and_not_a_signal)
{
	int ends[2];

	(void)signal(SIGPIPE, SIG_DFL);
	pair(ends);
	(void)close(ends[1]);
	EQ(fd_send(ends[0], "x", 1, NULL, 0), -EPIPE);
}

TEST(a_file_is_created_once_and_whole)
{
	char dir[] = "/tmp/test-fd-XXXXXX", path[64], text[16];
	struct stat st;

	OK(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/file", dir);
	EQ(fd_create_file(path, "first", 5), 0);
	EQ(fd_create_file(path, "second", 6), -EEXIST);
	EQ(fd_read_file_at(-1, path, text, sizeof(text)), 5);
	STREQ(text, "first");
	OK(stat(path, &st) == 0);
	EQ(st.st_mode & 07777, 0600);
	EQ(fd_create_file("/no-such-directory/file", "x", 1), -ENOENT);
	EQ(unlink(path), 0);
	EQ(rmdir(dir), 0); /* no other file was left */
}

TEST_MAIN()
