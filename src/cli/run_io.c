/* SPDX-License-Identifier: Apache-2.0 */
/* run_io.c - the loop of `warren run` */
#include "cli/run_io.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <time.h>

#include "cli/run_signal.h"
#include "cli/run_tty.h"

static int start_tty(struct run_io *io, const struct warren_exec *ex, bool interactive,
		     struct warren_error *err)
{
	int master = warren_exec_fd(ex, 0);
	int fd = fcntl(master, F_DUPFD_CLOEXEC, 3);

	if (fd < 0)
		return error_errno(err, errno, "share the command's terminal");
	splice_init_out(&io->out, fd, STDOUT_FILENO);
	splice_copy(&io->out);
	if (!interactive)
		return 0;
	fd = fcntl(master, F_DUPFD_CLOEXEC, 3);
	if (fd < 0)
		return error_errno(err, errno, "share the command's terminal");
	splice_init_in(&io->in, STDIN_FILENO, fd);
	splice_copy(&io->in);
	return 0;
}

int run_io_start(struct run_io *io, struct warren_exec *ex, const struct run_options *o,
		 struct warren_error *err)
{
	if (o->tty)
		return start_tty(io, ex, o->interactive, err);
	if (o->interactive)
		splice_init_in(&io->in, STDIN_FILENO,
			       warren_exec_take_fd(ex, STDIN_FILENO));
	if (o->json) {
		splice_init_capture(&io->out, warren_exec_take_fd(ex, STDOUT_FILENO),
				    PUMP_CAPTURE_MAX);
		splice_init_capture(&io->err, warren_exec_take_fd(ex, STDERR_FILENO),
				    PUMP_CAPTURE_MAX);
	} else {
		splice_init_out(&io->out, warren_exec_take_fd(ex, STDOUT_FILENO),
				STDOUT_FILENO);
		splice_init_out(&io->err, warren_exec_take_fd(ex, STDERR_FILENO),
				STDERR_FILENO);
	}
	return 0;
}

static void run_io_resize(struct warren_exec *ex)
{
	struct warren_error err = WARREN_ERROR_INIT;
	uint16_t rows, cols;

	tty_size(&rows, &cols);
	if (rows && cols)
		(void)warren_exec_resize(ex, rows, cols, &err);
}

/*
 * Ignore errors: the only likely error is that the command has just ended, which the loop
 * is about to notice.
 */
static void run_io_handle_signal(const struct run_io *io, struct warren_exec *ex, int sig)
{
	struct warren_error err = WARREN_ERROR_INIT;

	switch (sig) {
	case SIGWINCH:
		run_io_resize(ex);
		return;
	case SIGTSTP: /* not from the keyboard, because the terminal is in raw mode */
		tty_restore();
		(void)raise(SIGSTOP);
		return;
	case SIGCONT:
		if (io->raw)
			(void)tty_raw(STDIN_FILENO, &err);
		if (io->tty)
			run_io_resize(ex);
		break;
	default:
		break;
	}
	(void)warren_exec_signal(ex, sig, &err);
}

enum {
	AT_SIGNALS,
	AT_END,
	AT_SOURCE,
	AT_PUMPS,
	AT_COUNT = AT_PUMPS + 3,
};

static uint64_t run_io_now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* A signal arrived: from now on, the command has a limited time to end. */
static void run_io_ending(struct run_io *io, int sig, bool typed)
{
	if (io->grace_ms == 0 || io->ending || typed ||
	    (sig != SIGINT && sig != SIGTERM && sig != SIGHUP && sig != SIGQUIT))
		return;
	io->ending = sig;
	io->kill_ms = run_io_now_ms() + (uint64_t)io->grace_ms;
}

/* Kill the command if its time is over. Return how long to wait; -1: forever. */
static int run_io_deadline(struct run_io *io, struct warren_exec *ex)
{
	struct warren_error err = WARREN_ERROR_INIT;
	uint64_t now;

	if (!io->ending || io->killed)
		return -1;
	now = run_io_now_ms();
	if (now < io->kill_ms)
		return (int)(io->kill_ms - now);
	io->killed = true;
	(void)warren_exec_signal(ex, SIGKILL, &err);
	return -1;
}

/* Wait for an event, and move the streams. Return 0 or -errno. */
static int wait_and_pump(struct run_io *io, int end_fd, int timeout_ms,
			 struct pollfd fds[AT_COUNT])
{
	struct splice *const pumps[] = { &io->in, &io->out, &io->err };
	/* At the end, only the streams count. */
	const struct run_io_source *source = end_fd < 0 ? NULL : io->source;

	fds[AT_SIGNALS] = (struct pollfd){ .fd = io->signals, .events = POLLIN };
	fds[AT_END] = (struct pollfd){ .fd = end_fd, .events = POLLIN };
	fds[AT_SOURCE] =
		(struct pollfd){ .fd = source ? source->fd : -1, .events = POLLIN };
	for (size_t i = 0; i < ARRAY_SIZE(pumps); i++)
		fds[AT_PUMPS + i] = (struct pollfd){ .fd = splice_fd(pumps[i]),
						     .events = splice_events(pumps[i]) };
	if (poll(fds, AT_COUNT, timeout_ms) < 0)
		return errno == EINTR ? 0 : -errno;
	for (size_t i = 0; i < ARRAY_SIZE(pumps); i++)
		if (fds[AT_PUMPS + i].revents)
			splice_step(pumps[i], fds[AT_PUMPS + i].revents);
	if (source && fds[AT_SOURCE].revents)
		source->step(source->ctx);
	return 0;
}

int run_io_run(struct run_io *io, struct warren_exec *ex,
	       struct warren_result *ret_result, struct warren_error *err)
{
	struct pollfd fds[AT_COUNT] = { 0 };
	bool typed = false;
	int sig, r;

	for (;;) {
		r = wait_and_pump(io, warren_exec_wait_fd(ex), run_io_deadline(io, ex),
				  fds);
		if (r < 0)
			return error_errno(err, -r, "wait for the command");
		while (fds[AT_SIGNALS].revents &&
		       (sig = signals_next_from(io->signals, &typed)) > 0) {
			run_io_ending(io, sig, typed);
			run_io_handle_signal(io, ex, sig);
		}
		if (!fds[AT_END].revents)
			continue;
		r = warren_exec_wait(ex, 0, ret_result, err);
		if (r != 0)
			return r < 0 ? r : 0;
	}
}

int run_io_drain(struct run_io *io)
{
	struct pollfd fds[AT_COUNT] = { 0 };
	int sig;

	splice_stop(&io->in);
	while (io->out.state != PUMP_DONE || io->err.state != PUMP_DONE) {
		if (wait_and_pump(io, -1, -1, fds) < 0)
			return 0;
		while (fds[AT_SIGNALS].revents && (sig = signals_next(io->signals)) > 0)
			if (signal_ends(sig))
				return sig;
	}
	return 0;
}

void run_io_done(struct run_io *io)
{
	splice_done(&io->in);
	splice_done(&io->out);
	splice_done(&io->err);
}
