/* SPDX-License-Identifier: Apache-2.0 */
/* initclient.c - the end of a box */
#include "initclient/initclient.h"

static void free_list(char **list)
{
	for (char **p = list; p && *p; p++)
		free(*p);
	free(list);
}

void talk_done(struct talk_box *box)
{
	if (box->pidfd >= 0)
		(void)close(box->pidfd);
	if (box->control >= 0)
		(void)close(box->control);
	for (struct talk_exec *ex = box->execs; ex; ex = ex->next)
		ex->box = NULL;
	free_list(box->env);
	free_list(box->base.entrypoint);
	free_list(box->base.cmd);
	free(box->workdir);
	free(box->hostname);
	free(box->state_text);
	free(box->base.steps);
}
