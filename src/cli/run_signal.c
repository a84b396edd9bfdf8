/* SPDX-License-Identifier: Apache-2.0 */
/* run_signal.c - receive the signals that are forwarded to the command */
#include "cli/run_signal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>

#include "base/errno_names.h"
#include "base/macro.h"

static const struct {
	int sig;
	bool tty;  /* forwarded only if there is a terminal */
	bool ends; /* the default action ends the process */
} signals[] = {
	{ SIGINT, false, true },
	{ SIGTERM, false, true },
	{ SIGHUP, false, true },
	{ SIGQUIT, false, true },
	{ SIGUSR1, false, true },
	{ SIGUSR2, false, true },
	{ SIGCONT, false, false },
	/* If the command has no terminal, ^Z stops this process as usual. */
	{ SIGTSTP, true, false },
	{ SIGWINCH, true, false },
};

void signals_block(bool tty, sigset_t *ret_set)
{
	struct sigaction sa;
	sigset_t blocked;

	(void)sigemptyset(ret_set);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		if (signals[i].tty && !tty)
			continue;
		/* Do not block an ignored signal, because it would be queued and read. */
		if (sigaction(signals[i].sig, NULL, &sa) == 0 && sa.sa_handler == SIG_IGN)
			continue;
		(void)sigaddset(ret_set, signals[i].sig);
	}
	blocked = *ret_set;
	/* Never read, because EPIPE reports the same. */
	(void)sigaddset(&blocked, SIGPIPE);
	(void)sigprocmask(SIG_BLOCK, &blocked, NULL);
}

int signals_open(const sigset_t *set, struct warren_error *err)
{
	int fd = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);

	return fd < 0 ? error_errno(err, errno, "open a descriptor for signals") : fd;
}

int signals_next_from(int fd, bool *ret_typed)
{
	struct signalfd_siginfo info;

	if (read(fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
		return 0;
	*ret_typed = info.ssi_code == SI_KERNEL &&
		     (info.ssi_signo == SIGINT || info.ssi_signo == SIGQUIT);
	return (int)info.ssi_signo;
}

int signals_next(int fd)
{
	bool typed;

	return signals_next_from(fd, &typed);
}

bool signal_ends(int sig)
{
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		if (signals[i].sig == sig)
			return signals[i].ends;
	return false;
}

const char *signal_name(int sig, char name[16])
{
	const char *abbrev = signal_abbrev(sig);

	if (abbrev)
		(void)snprintf(name, 16, "SIG%s", abbrev);
	else if (sig >= SIGRTMIN && sig <= SIGRTMAX)
		(void)snprintf(name, 16, "SIGRTMIN+%d", sig - SIGRTMIN);
	else
		(void)snprintf(name, 16, "SIG%d", sig);
	return name;
}
