/* SPDX-License-Identifier: Apache-2.0 */
/*
 * report.h - report progress and the result as lines of JSON, for a calling program
 *
 *	{"type":"layer","digest":"sha256:...","phase":"downloading","done":1,"total":2}
 *	{"type":"output","text":"..."}		of a build
 *	...
 *	{"type":"end","status":125,"errno":2,"message":"...","detail":"..."}
 *
 * The command's own output is on stdout between these lines. The last line always has
 * type "end"; if it is missing, the process was killed. `detail` is only for the
 * administrator. A reader that closes the pipe cancels the command.
 */
#ifndef CLI_IMAGE_REPORT_H
#define CLI_IMAGE_REPORT_H

#include "image/oci.h"

void report_start(void);
/* Return whether a report was requested. */
bool report_wanted(void);
/* Record why the command failed; only the first error is reported. */
void image_report_error(const struct warren_error *err);
/* Error that receives the reason if the message must not contain it; "": none. */
struct warren_error *report_hidden(void);
/*
 * Report progress, like the callback of struct oci_options; non-zero: the reader closed
 * the pipe.
 */
int report_layers(const struct oci_layer *layers, size_t n);
/* Report output of a build: at most 64 KiB. */
void image_report_output(const char *data, size_t n);
/* Return whether the reader has not closed the pipe. */
bool report_is_read(void);
/* Write the last line; return @status. */
int report_end(int status);

#endif /* CLI_IMAGE_REPORT_H */
