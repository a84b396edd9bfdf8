/* SPDX-License-Identifier: Apache-2.0 */
/* files.c - requests about files: none is answered yet but by a refusal */
#include <errno.h>

#include "keeper/work.h"

void files_work(const struct work *w, const void *msg UNUSED, size_t size UNUSED,
		int *fds UNUSED, size_t n_fds UNUSED)
{
	work_reply(w, -EOPNOTSUPP, 0, -1, NULL);
}
