/* SPDX-License-Identifier: Apache-2.0 */
/*
 * progress.h - progress of a pull or a load, on stderr
 *
 * On a terminal a line per layer, redrawn in place; the cursor is always below
 * them, so that nothing is to be restored, whatever ends us. Elsewhere a plain
 * line when a layer's state changes.
 */
#ifndef CLI_IMAGE_PROGRESS_H
#define CLI_IMAGE_PROGRESS_H

#include "image/oci.h"

struct progress_layer; /* what was last seen of one */

struct progress {
	bool quiet;
	bool terminal;
	struct progress_layer *seen;
	size_t n;
	size_t drawn; /* lines above the cursor that are ours */
};

void progress_init(struct progress *p, bool quiet);
/* For struct oci_options; non-zero when a signal asks for an end. */
int progress_show(void *ctx, const struct oci_layer *layers, size_t n);
void progress_done(struct progress *p);

#endif /* CLI_IMAGE_PROGRESS_H */
