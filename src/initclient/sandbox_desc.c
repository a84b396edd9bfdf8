/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox_desc.c - the description of a sandbox, for a process without privileges */
#include "initclient/sandbox_desc.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "initclient/initclient.h"
#include "initclient/state_file.h"

static const struct state_field more[] = {
	{ "left_paused", STATE_OPTION, offsetof(struct initclient_sandbox, left_paused) },
};

const struct state_table description_more = { more, ARRAY_SIZE(more) };

int description_parse(const char *text, size_t size, struct description *ret,
		      struct warren_error *err)
{
	struct description d = { .sandbox = calloc(1, sizeof(*d.sandbox)) };
	char *copy = malloc(size + 1);
	int r;

	if (!d.sandbox || !copy) {
		free(copy);
		free(d.sandbox);
		return error_errno(err, ENOMEM, "read the sandbox's description");
	}
	d.sandbox->pidfd = d.sandbox->control = -1;
	(void)memcpy(copy, text, size);
	copy[size] = '\0';
	r = state_parse(d.sandbox, &description_more, copy, size, err);
	if (r < 0) {
		description_done(&d);
		return r;
	}
	initclient_base(d.sandbox, &d.base);
	d.enforced = d.sandbox->base.enforced;
	d.n_enforced = d.sandbox->base.n_enforced;
	d.saved = d.sandbox->saved;
	d.paused = d.sandbox->paused || d.saved;
	d.left_paused = d.sandbox->left_paused && d.paused && !d.saved;
	*ret = d;
	return 0;
}

void description_done(struct description *d)
{
	if (d->sandbox)
		initclient_done(d->sandbox);
	free(d->sandbox);
	*d = (struct description){ 0 };
}
