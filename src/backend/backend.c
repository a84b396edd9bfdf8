/* SPDX-License-Identifier: Apache-2.0 */
/* backend.c - the list of backends, and functions that they share */
#include "backend/backend.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define OPS(name) &backend_##name,

/* clang-format off */
static const struct backend_ops *const backends[] = {
	BACKEND_KINDS_OWN(OPS)
	&backend_null,
	BACKEND_KINDS_SHIMMED(OPS)
};
/* clang-format on */

const struct backend_ops *backend_by_name(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(backends); i++)
		if (strcmp(backends[i]->name, name) == 0)
			return backends[i];
	return NULL;
}

void backend_enforce(struct backend_sandbox *sandbox, const char *name, bool enforced,
		     const char *fmt, ...)
{
	struct warren_enforcement *e = sandbox->enforced;
	va_list ap;

	while (e < sandbox->enforced + sandbox->n_enforced && strcmp(e->name, name) != 0)
		e++;
	if (e == sandbox->enforced + BACKEND_ENFORCED_MAX)
		return;
	if (e == sandbox->enforced + sandbox->n_enforced)
		sandbox->n_enforced++;
	e->name = name;
	e->enforced = enforced;
	va_start(ap, fmt);
	(void)vsnprintf(e->detail, sizeof(e->detail), fmt, ap);
	va_end(ap);
}
