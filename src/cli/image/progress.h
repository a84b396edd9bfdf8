/* SPDX-License-Identifier: Apache-2.0 */
/*
 * progress.h - progress of a pull or a load, on stderr
 *
 * On a terminal, each layer has a line that is redrawn in place. The cursor is always
 * below these lines, so that nothing needs to be restored when the process ends.
 * Elsewhere, a plain line is printed when a layer's state changes.
 */
#ifndef CLI_IMAGE_PROGRESS_H
#define CLI_IMAGE_PROGRESS_H

#include "image/oci.h"

struct progress_layer; /* the last known state of a layer */

struct progress {
	bool quiet;
	bool terminal;
	struct progress_layer *seen;
	size_t n;
	size_t drawn; /* number of lines drawn above the cursor */
};

void progress_init(struct progress *p, bool quiet);
/*
 * The progress callback of struct oci_options; returns non-zero if a signal requests an
 * end.
 */
int progress_show(void *ctx, const struct oci_layer *layers, size_t n);
void progress_done(struct progress *p);

#endif /* CLI_IMAGE_PROGRESS_H */
