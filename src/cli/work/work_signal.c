/* SPDX-License-Identifier: Apache-2.0 */
/* work_signal.c - end with a message when a signal arrives and there is no command */
#include "cli/work/work_signal.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macro.h"
#include "cli/command.h"

static const int work_signals[] = { SIGINT, SIGTERM, SIGHUP };

static struct {
	pid_t owner; /* the process that has the handler; not its children */
	volatile pid_t child;
	char text[1024];
} work_end_state;

static void work_signal_end(int sig)
{
	pid_t child = work_end_state.child;

	/* Only functions that are safe in a handler. */
	if (getpid() != work_end_state.owner)
		_exit(STATUS_SIGNAL + sig);
	if (child > 0 && kill(child, sig) == 0)
		(void)waitpid(child, NULL, 0);
	if (write(STDERR_FILENO, work_end_state.text, strlen(work_end_state.text)) < 0)
		_exit(STATUS_SIGNAL + sig); /* the terminal is gone */
	_exit(STATUS_SIGNAL + sig);
}

void work_signals_say(const char *text)
{
	sigset_t all, was;

	(void)sigfillset(&all);
	(void)sigprocmask(SIG_BLOCK, &all, &was);
	(void)snprintf(work_end_state.text, sizeof(work_end_state.text), "%s", text);
	(void)sigprocmask(SIG_SETMASK, &was, NULL);
}

void work_signals_child(pid_t pid)
{
	work_end_state.child = pid;
}

void work_signals_begin(void)
{
	struct sigaction action = { .sa_handler = work_signal_end }, was;

	/* One at a time: a second signal does not interrupt the message. */
	(void)sigfillset(&action.sa_mask);
	work_end_state.owner = getpid();
	for (size_t i = 0; i < ARRAY_SIZE(work_signals); i++)
		if (sigaction(work_signals[i], NULL, &was) == 0 &&
		    was.sa_handler != SIG_IGN)
			(void)sigaction(work_signals[i], &action, NULL);
}
