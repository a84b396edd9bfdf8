/* SPDX-License-Identifier: Apache-2.0 */
/* describe.c - a sandbox as its maker knows it, for a process that has no rights over it */
#include "backend/native/describe.h"

#include <errno.h>
#include <string.h>

#include "backend/native/native.h"
#include "backend/native/state.h"

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
	d.box->pidfd = d.box->control = d.box->image_lock = -1;
	(void)memcpy(copy, text, size);
	copy[size] = '\0';
	r = state_parse(d.box, copy, size, err);
	if (r < 0) {
		description_done(&d);
		return r;
	}
	d.base = (struct request_base){
		.env = (const char *const *)d.box->env,
		.hostname = d.box->hostname,
		.workdir = d.box->workdir,
		.user = d.box->user,
		.nofile = d.box->nofile,
		.n_ids = d.box->n_ids,
		.groups = d.box->groups,
	};
	d.enforced = d.box->base.enforced;
	d.n_enforced = d.box->base.n_enforced;
	*ret = d;
	return 0;
}

void description_done(struct description *d)
{
	if (d->box)
		native_forget(d->box);
	*d = (struct description){ 0 };
}
