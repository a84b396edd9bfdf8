/* SPDX-License-Identifier: Apache-2.0 */
/* run_tty.c - set raw mode, and restore the terminal */
#include "cli/run_tty.h"

#include <errno.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "base/macro.h"

/* Signals that end a process by default and are not forwarded to the command. */
static const int fatal_signals[] = {
	SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGXCPU, SIGXFSZ, SIGALRM,
};

static struct termios saved;
static volatile sig_atomic_t raw_fd = -1;
static bool armed;

/* This function can be called in a signal handler. */
void tty_restore(void)
{
	int fd = raw_fd;
	sigset_t ttou, before;

	if (fd < 0)
		return;
	/*
	 * In the background, this call would stop the process and leave the terminal
	 * unrestored.
	 */
	(void)sigemptyset(&ttou);
	(void)sigaddset(&ttou, SIGTTOU);
	(void)sigprocmask(SIG_BLOCK, &ttou, &before);
	(void)tcsetattr(fd, TCSANOW, &saved);
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	raw_fd = -1;
}

static void restore_and_die(int sig)
{
	tty_restore();
	(void)raise(sig); /* SA_RESETHAND is set, so this runs the default action */
}

static void run_tty_arm(void)
{
	struct sigaction sa = { .sa_handler = restore_and_die };

	if (armed)
		return;
	armed = true;
	(void)atexit(tty_restore);
	sa.sa_flags = (int)(SA_RESETHAND | SA_NODEFER);
	for (size_t i = 0; i < ARRAY_SIZE(fatal_signals); i++)
		(void)sigaction(fatal_signals[i], &sa, NULL);
}

int tty_raw(int fd, struct warren_error *err)
{
	struct termios raw;

	if (raw_fd >= 0) /* the mode may have changed while this process was stopped */
		raw = saved;
	else if (tcgetattr(fd, &raw) < 0)
		return error_errno(err, errno, "read the terminal's settings");
	saved = raw;
	run_tty_arm();
	raw_fd = fd;
	cfmakeraw(&raw);
	if (tcsetattr(fd, TCSANOW, &raw) < 0)
		return error_errno(err, errno, "set the terminal to raw mode");
	return 0;
}

void tty_size(uint16_t *ret_rows, uint16_t *ret_cols)
{
	struct winsize ws;

	*ret_rows = *ret_cols = 0;
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (ioctl(fd, TIOCGWINSZ, &ws) < 0)
			continue;
		*ret_rows = ws.ws_row;
		*ret_cols = ws.ws_col;
		return;
	}
}
