/* SPDX-License-Identifier: Apache-2.0 */
/* run_network.c - start warren-egress for one sandbox, send requests to it, and end it */
#include "cli/run_network.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/libexec.h"
#include "base/parse.h"
#include "cli/command.h"

#define EGRESS_PROGRAM "warren-egress"
#define EGRESS_NOBODY  65534
#define REPLY_WAIT_MS  20000
/* Time to deliver remaining bytes after the sandbox has ended. */
#define DELIVER_WAIT_MS 1000
#define DELIVER_STEP_NS 2000000

int run_network_init(struct run_network *n, const struct network_options *o,
		     struct warren_error *err)
{
	if (!network_options_has_policy(o))
		return 0;
	n->learn = network_options_learn(o);
	return network_options_policy(o, &n->policy, err);
}

static bool run_network_is_on(const struct run_network *n)
{
	return n->policy.allow.n > 0 || n->policy_text;
}

/* ------------------------------------------------------------------ the child process */

/* Report a failure before exec in the form of a reply. */
_Noreturn static void egress_child_fail(int control, const char *what)
{
	struct egress_reply reply = { .h = { .version = EGRESS_VERSION,
					     .type = EGRESS_REPLY } };

	(void)error_errno(&reply.err, errno, "%s", what);
	(void)!fd_send(control, &reply, sizeof(reply), NULL, 0);
	_exit(STATUS_FAILED);
}

static bool egress_child_drop(void)
{
	return geteuid() != 0 ||
	       (setgroups(0, NULL) == 0 &&
		setresgid(EGRESS_NOBODY, EGRESS_NOBODY, EGRESS_NOBODY) == 0 &&
		setresuid(EGRESS_NOBODY, EGRESS_NOBODY, EGRESS_NOBODY) == 0);
}

/*
 * The child inherits only @control and the caller's stderr. It gets a new session, so
 * that a signal from the terminal does not end it.
 */
_Noreturn static void egress_child_run(int control, int program, const char *path,
				       const char *dns_servers)
{
	const char *words[] = { EGRESS_PROGRAM, dns_servers ? "--dns-servers" : NULL,
				dns_servers, NULL };
	char *const *argv = (char *const *)(uintptr_t)words;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	(void)setsid();
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	/* Move it above the numbers that are assigned next. */
	control = fcntl(control, F_DUPFD_CLOEXEC, EGRESS_FD + 1);
	program = fcntl(program, F_DUPFD_CLOEXEC, EGRESS_FD + 1);
	if (control < 0 || program < 0 || dup2(null, STDIN_FILENO) < 0 ||
	    dup2(null, STDOUT_FILENO) < 0 || dup2(control, EGRESS_FD) < 0)
		egress_child_fail(control, "pass descriptors to " EGRESS_PROGRAM);
	if (close_range(EGRESS_FD + 1, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
		egress_child_fail(control, "close descriptors");
	if (!egress_child_drop())
		egress_child_fail(control, "run " EGRESS_PROGRAM " as user 'nobody'");
	(void)execve(path, argv, environ);
	/* The user may have no access to a parent directory. */
	if (errno == EACCES)
		(void)syscall(SYS_execveat, program, "", argv, environ, AT_EMPTY_PATH);
	egress_child_fail(control, "start " EGRESS_PROGRAM);
}

int run_network_start(struct run_network *n, struct warren_error *err)
{
	AUTO_CLOSE int program = -1, other = -1;
	char path[PATH_MAX];
	int fds[2], r;

	if (!run_network_is_on(n))
		return 0;
	r = libexec_find(EGRESS_PROGRAM, path, err);
	if (r < 0)
		return r;
	program = open(path, O_PATH | O_CLOEXEC);
	if (program < 0)
		return error_errno(err, errno, "open %s", path);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return error_errno(err, errno, "make a socket");
	n->control = fds[0];
	other = fds[1];
	n->pid = fork();
	if (n->pid == 0)
		egress_child_run(other, program, path, n->dns_servers);
	return n->pid < 0 ? error_errno(err, errno, "start %s", path) : 0;
}

/* ------------------------------------------------------------------- requests */

static int run_network_dead(struct warren_error *err)
{
	return error_set(err, EPIPE, EGRESS_PROGRAM " has ended: the network is closed");
}

/* Take the data of a reply. */
static int run_network_data(const struct egress_reply *reply, int fd, char **ret,
			    struct warren_error *err)
{
	size_t n = 0;

	if (reply->size > EGRESS_INLINE_MAX)
		return egress_proto_read_memfd(fd, EGRESS_ANSWER_MAX, ret, &n, err);
	*ret = strndup(reply->data, reply->size);
	return *ret ? 0 : error_errno(err, ENOMEM, "read the reply of " EGRESS_PROGRAM);
}

/* Receive one message. Return 1 if it was the reply, or 0 if it was another message. */
static int run_network_receive(struct run_network *n, char **ret,
			       struct warren_error *err)
{
	static union {
		struct egress_reply reply;
		char room[EGRESS_MESSAGE_MAX];
	} in;
	AUTO_CLOSE int fd = -1;
	size_t n_fds = 1;
	ssize_t size = fd_recv(n->control, &in, sizeof(in), &fd, &n_fds, 0);

	if (size == -EINTR)
		return 0;
	if (size <= 0)
		return run_network_dead(err);
	if (egress_proto_check_event(&in, (size_t)size, n_fds) < 0)
		return error_set(err, EPROTO,
				 EGRESS_PROGRAM " sent a message that is not valid");
	if (in.reply.h.type != EGRESS_REPLY)
		return 0;
	if (in.reply.err.code) {
		*err = in.reply.err;
		return -err->code;
	}
	if (in.reply.h.cookie != n->cookie)
		return 0;
	return ret && run_network_data(&in.reply, fd, ret, err) < 0 ? -err->code : 1;
}

static int run_network_wait(struct run_network *n, char **ret, struct warren_error *err)
{
	uint64_t until = clock_now() / 1000000 + REPLY_WAIT_MS;

	for (;;) {
		struct pollfd p = { .fd = n->control, .events = POLLIN };
		uint64_t now = clock_now() / 1000000;
		int r = now < until ? poll(&p, 1, (int)(until - now)) : 0;

		if (r == 0)
			return error_set(err, ETIMEDOUT,
					 EGRESS_PROGRAM " did not reply within %d s",
					 REPLY_WAIT_MS / 1000);
		r = r < 0 ? 0 : run_network_receive(n, ret, err);
		if (r != 0)
			return r < 0 ? r : 0;
	}
}

static int run_network_query(struct run_network *n, char **ret, struct warren_error *err)
{
	struct egress_request msg;

	egress_proto_request(&msg, EGRESS_QUERY, ++n->cookie, n->id);
	if (fd_send(n->control, &msg, sizeof(msg), NULL, 0) < 0)
		return run_network_dead(err);
	return run_network_wait(n, ret, err);
}

static int run_network_add(struct run_network *n, const int fds[EGRESS_FDS_MAX],
			   struct warren_error *err)
{
	const struct egress_usage none = { 0 };
	struct egress_add msg;
	int r;

	egress_proto_add(&msg, ++n->cookie, n->id, &none);
	r = fd_send(n->control, &msg, sizeof(msg), fds, EGRESS_FDS_MAX);
	/* If the child failed, it has reported the reason. */
	return r < 0 && r != -EPIPE ? error_errno(err, -r, "speak to " EGRESS_PROGRAM)
				    : run_network_wait(n, NULL, err);
}

static int run_network_policy_fd(const struct run_network *n, struct warren_error *err)
{
	AUTO_BUF struct buf text = BUF_INIT(EGRESS_POLICY_MAX);
	struct json j = { .out = &text };

	if (n->policy_text)
		buf_puts(&text, n->policy_text);
	else
		policy_write(&n->policy, &j, NULL);
	return text.failed ? error_errno(err, ENOMEM, "write the network policy")
			   : egress_proto_memfd(text.data, text.len, err);
}

int run_network_open(struct run_network *n, struct warren_sandbox *sb,
		     struct warren_error *err)
{
	int fds[EGRESS_FDS_MAX] = { -1, -1, -1 }, r;

	if (!run_network_is_on(n))
		return 0;
	_Static_assert(EGRESS_ADD_TCP + WARREN_CAPTURE_FDS == EGRESS_FDS_MAX,
		       "the sockets are the last descriptors");
	(void)snprintf(n->id, sizeof(n->id), "%s", warren_id(sb));
	r = warren_capture_network(sb, &fds[EGRESS_ADD_TCP], err);
	if (r < 0)
		return r;
	fds[EGRESS_ADD_POLICY] = run_network_policy_fd(n, err);
	r = fds[EGRESS_ADD_POLICY];
	if (r >= 0)
		r = run_network_add(n, fds, err);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		if (fds[i] >= 0)
			(void)close(fds[i]);
	return r;
}

/* ----------------------------------------------------------------- end of the process */

/* Get a number from the record. The counters come before all text that a sandbox or a
 * server can choose. */
static bool run_network_number(const char *record, const char *key, uint64_t *ret)
{
	const char *at = record ? strstr(record, key) : NULL;
	char digits[24] = "";

	if (at)
		(void)sscanf(at + strlen(key), "%20[0-9]", digits);
	return digits[0] && parse_u64(digits, UINT64_MAX, ret, NULL) == 0;
}

static int run_network_deliver(struct run_network *n, struct warren_error *err)
{
	const struct timespec step = { .tv_nsec = DELIVER_STEP_NS };
	uint64_t until = clock_now() / 1000000 + DELIVER_WAIT_MS, live = 0;

	for (;;) {
		char *record = NULL;
		int r = run_network_query(n, &record, err);

		if (r < 0)
			return r;
		free(n->record);
		n->record = record;
		if (!run_network_number(record, "\"live_count\":", &live) || live == 0 ||
		    clock_now() / 1000000 >= until)
			return 0;
		(void)nanosleep(&step, NULL);
	}
}

static void run_network_end(struct run_network *n)
{
	if (n->control >= 0)
		(void)close(TAKE_FD(n->control));
	if (n->pid <= 0)
		return;
	/* It can be killed, because it has nothing to clean up. */
	(void)kill(n->pid, SIGKILL);
	while (waitpid(n->pid, NULL, 0) < 0 && errno == EINTR)
		;
	n->pid = 0;
}

void run_network_close(struct run_network *n)
{
	struct warren_error err = WARREN_ERROR_INIT;

	if (n->control < 0)
		return;
	if (run_network_deliver(n, &err) < 0)
		message_say("run", "%s", err.msg);
	run_network_end(n);
}

void run_network_done(struct run_network *n)
{
	run_network_end(n);
	policy_done(&n->policy);
	free(n->record);
	free(n->enforced);
}

/* -------------------------------------------------------------------- reports */

const struct warren_enforcement *run_network_enforced(struct run_network *n,
						      const struct warren_sandbox *sb,
						      size_t *ret_n)
{
	const struct warren_enforcement *list = warren_enforced(sb, ret_n);

	if (n->control < 0)
		return list;
	if (!n->enforced)
		n->enforced = calloc(*ret_n + 1, sizeof(*n->enforced));
	if (!n->enforced)
		return list;
	for (size_t i = 0; i < *ret_n; i++) {
		struct warren_enforcement *e = &n->enforced[i];

		*e = list[i];
		if (strcmp(e->name, "network") == 0)
			(void)snprintf(
				e->detail, sizeof(e->detail),
				"policy (allow: %zu, deny: %zu rules); all else is refused",
				n->policy.allow.n, n->policy.deny.n);
	}
	return n->enforced;
}

void run_network_write(const struct run_network *n, struct json *j)
{
	static const char *const counters[] = { "connections", "denied", "bytes_in",
						"bytes_out" };

	if (!run_network_is_on(n))
		return;
	json_open(j, "network", '{');
	policy_write(&n->policy, j, "policy");
	if (n->record)
		json_open(j, "usage", '{');
	else
		json_nil(j, "usage");
	for (size_t i = 0; n->record && i < ARRAY_SIZE(counters); i++) {
		uint64_t value = 0;
		char key[32];

		(void)snprintf(key, sizeof(key), "\"%s\":", counters[i]);
		if (run_network_number(n->record, key, &value))
			json_u64(j, counters[i], value);
	}
	if (n->record)
		json_close(j, '}');
	json_close(j, '}');
}

/* Run warren-client, which can read JSON; it prints to this process's stderr. */
static int run_network_suggest(int record, struct warren_error *err)
{
	static const char *const argv[] = { "network", "--suggest", "-", NULL };
	posix_spawn_file_actions_t actions;
	char path[PATH_MAX];
	pid_t pid = 0;
	int r = libexec_find("warren-client", path, err), status = 0;

	if (r < 0)
		return r;
	if (posix_spawn_file_actions_init(&actions) != 0)
		return error_errno(err, ENOMEM, "start %s", path);
	r = posix_spawn_file_actions_adddup2(&actions, record, STDIN_FILENO);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO,
						     STDOUT_FILENO);
	if (r == 0)
		r = posix_spawn(&pid, path, &actions, NULL,
				(char *const *)(uintptr_t)argv, environ);
	(void)posix_spawn_file_actions_destroy(&actions);
	if (r != 0)
		return error_errno(err, r, "start %s", path);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return 0;
}

void run_network_say(const struct run_network *n, const char *command, bool quiet)
{
	struct warren_error err = WARREN_ERROR_INIT;
	AUTO_CLOSE int record = -1;
	uint64_t denied = 0;

	if (!n->record)
		return;
	(void)run_network_number(n->record, "\"denied\":", &denied);
	if (!n->learn && (quiet || denied == 0))
		return;
	if (n->learn)
		message_say(command, NETWORK_SAY_LEARN);
	else
		message_say(command, NETWORK_SAY_DENIED, (uintmax_t)denied);
	record = egress_proto_memfd(n->record, strlen(n->record), &err);
	if (record >= 0)
		(void)lseek(record, 0, SEEK_SET);
	if (record < 0 || run_network_suggest(record, &err) < 0)
		message_say(command, "%s", err.msg);
}
