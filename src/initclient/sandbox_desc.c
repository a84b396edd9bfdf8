/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_desc.c - a sandbox as its maker knows it, for a process that has no rights over it */
#include "initclient/sandbox_desc.h"

#include <errno.h>
#include <string.h>

#include "initclient/state_file.h"
#include "initclient/initclient.h"

int description_parse(const char *text, size_t size, struct description *ret,
		      struct warren_error *err)
{
	struct description d = { .box = calloc(1, sizeof(*d.box)) };
	char *copy = malloc(size + 1);
	int r;

	if (!d.box || !copy) {
		free(copy);
		free(d.box);
		return error_errno(err, ENOMEM, "take in what the sandbox is");
	}
	d.box->pidfd = d.box->control = -1;
	(void)memcpy(copy, text, size);
	copy[size] = '\0';
	r = state_parse(d.box, NULL, copy, size, err);
	if (r < 0) {
		description_done(&d);
		return r;
	}
	talk_base(d.box, &d.base);
	d.enforced = d.box->base.enforced;
	d.n_enforced = d.box->base.n_enforced;
	d.saved = d.box->saved;
	d.paused = d.box->paused || d.saved;
	*ret = d;
	return 0;
}

void description_done(struct description *d)
{
	if (d->box)
		talk_done(d->box);
	free(d->box);
	*d = (struct description){ 0 };
}
