/* SPDX-License-Identifier: Apache-2.0 */
/* initclient.c - the end of a sandbox */
#include "initclient/initclient.h"

static void initclient_free_list(char **list)
{
	for (char **p = list; p && *p; p++)
		free(*p);
	free(list);
}

void initclient_done(struct initclient_sandbox *sandbox)
{
	if (sandbox->pidfd >= 0)
		(void)close(sandbox->pidfd);
	if (sandbox->control >= 0)
		(void)close(sandbox->control);
	for (struct initclient_exec *ex = sandbox->execs; ex; ex = ex->next)
		ex->sandbox = NULL;
	initclient_free_list(sandbox->env);
	initclient_free_list(sandbox->base.entrypoint);
	initclient_free_list(sandbox->base.cmd);
	free(sandbox->workdir);
	free(sandbox->hostname);
	free(sandbox->state_text);
	free(sandbox->base.steps);
}
