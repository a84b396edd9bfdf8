/* SPDX-License-Identifier: Apache-2.0 */
/* initclient.c - release the state of a sandbox */
#include "initclient/initclient.h"
#include "base/strv.h"

void initclient_done(struct initclient_sandbox *sandbox)
{
	if (sandbox->pidfd >= 0)
		(void)close(sandbox->pidfd);
	if (sandbox->control >= 0)
		(void)close(sandbox->control);
	for (struct initclient_exec *ex = sandbox->execs; ex; ex = ex->next)
		ex->sandbox = NULL;
	(void)strv_free(sandbox->env);
	(void)strv_free(sandbox->base.entrypoint);
	(void)strv_free(sandbox->base.cmd);
	free(sandbox->workdir);
	free(sandbox->image);
	free(sandbox->hostname);
	free(sandbox->state_text);
	free(sandbox->base.steps);
}
