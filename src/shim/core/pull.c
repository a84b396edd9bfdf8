/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pull.c - warren-shim pull KIND IMAGE: pull an image for a platform that has its own
 * images
 *
 * The output is that of `warren-image --report pull`: a line of JSON for each step of a
 * layer, one with the image, and a last one with the result. If the reader closes the
 * pipe, the pull is cancelled.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "shim/core/shim.h"

static void pull_say(json_t *line)
{
	char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;
	int r = text ? 0 : -ENOMEM;

	if (r == 0)
		r = fd_write_all(1, text, strlen(text));
	if (r == 0)
		r = fd_write_all(1, "\n", 1);
	free(text);
	json_decref(line);
	if (r < 0)
		_exit(1);
}

static void pull_tell(struct shim_driver_pull *pull UNUSED, const char *digest,
		      const char *phase, uint64_t done, uint64_t total)
{
	pull_say(json_pack("{s:s, s:s, s:s, s:I, s:I}", "type", "layer", "digest", digest,
			   "phase", phase, "done", (json_int_t)done, "total",
			   (json_int_t)total));
}

int shim_pull(const struct shim_driver *p, const json_t *config, const char *image,
	      bool missing, struct warren_error *err)
{
	const char *name = json_string_value(json_object_get(config, "name"));
	struct shim_driver_pull pull = { .tell = pull_tell };
	json_t *found = NULL;
	int r;

	if (!name)
		name = p->kind->name;
	r = p->pull ? p->pull(name, config, image, missing, &pull, &found, err)
		    : error_set(err, EOPNOTSUPP,
				"pulling images is not supported by backend '%s'", name);
	if (r == 0)
		pull_say(json_pack("[o]", found));
	return r;
}

void shim_pull_end(int r, const struct warren_error *err)
{
	pull_say(json_pack("{s:s, s:i, s:i, s:s}", "type", "end", "status", r < 0,
			   "errno", r < 0 ? err->code : 0, "message",
			   r < 0 ? err->msg : ""));
}
