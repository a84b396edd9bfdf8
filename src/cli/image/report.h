/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h - progress and result in lines of JSON, for a calling program
 *
 *	{"type":"layer","digest":"sha256:...","phase":"downloading","done":1,"total":2}
 *	...
 *	{"type":"end","status":125,"errno":2,"message":"...","detail":"..."}
 *
 * Between them on stdout is what the command prints. The last line is always of
 * type "end": without it we were killed. What it calls detail is for the administrator
 * alone. Who closes the pipe wants no more of it.
 */
#ifndef CLI_IMAGE_REPORT_H
#define CLI_IMAGE_REPORT_H

#include "image/oci.h"

void report_start(void);
/* Was it asked for? */
bool report_wanted(void);
/* Why it failed; of several reasons, the first is reported. */
void image_report_error(const struct warren_error *err);
/* Where the reason goes that the message does not tell; "": there is none. */
struct warren_error *report_hidden(void);
/* As for struct oci_options; non-zero: the reader has left. */
int report_layers(const struct oci_layer *layers, size_t n);
/* The last line. Returns @status. */
int report_end(int status);

#endif /* CLI_IMAGE_REPORT_H */
