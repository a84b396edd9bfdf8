/* SPDX-License-Identifier: Apache-2.0 */
/* cancel.c - remember the signal that requests an end */
#include "cli/image/cancel.h"

#include <signal.h>
#include <stddef.h>

#include "base/macro.h"

static volatile sig_atomic_t came;

static void cancel_remember(int sig)
{
	came = sig;
}

void cancel_arm(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct sigaction before;

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		struct sigaction sa = { .sa_handler = cancel_remember };

		sa.sa_flags = (int)SA_RESETHAND;
		/* Signals that the caller ignores (nohup) stay ignored. */
		if (sigaction(signals[i], NULL, &before) == 0 &&
		    before.sa_handler != SIG_IGN)
			(void)sigaction(signals[i], &sa, NULL);
	}
}

int cancel_signal(void)
{
	return came;
}
