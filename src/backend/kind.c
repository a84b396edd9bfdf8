/* SPDX-License-Identifier: Apache-2.0 */
/* kind.c - the kinds of backends, from the lists in kind.h */
#include "backend/kind.h"

#include <string.h>

#include "base/macro.h"

#define DESCRIPTION(name) &backend_kind_##name,

/* clang-format off */
const struct backend_kind *const backend_kinds[] = {
	BACKEND_KINDS_OWN(DESCRIPTION)
	BACKEND_KINDS_SHIMMED(DESCRIPTION)
};
/* clang-format on */
const size_t backend_n_kinds = ARRAY_SIZE(backend_kinds);

const struct backend_kind *backend_kind_find(const char *name)
{
	for (size_t i = 0; i < backend_n_kinds; i++)
		if (strcmp(backend_kinds[i]->name, name) == 0)
			return backend_kinds[i];
	return NULL;
}
