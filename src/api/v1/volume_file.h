/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume_file.h - shared by the handlers for files of volumes, of every API
 *
 * The first parameter of the route is the name of the volume.
 */
#ifndef API_V1_VOLUME_FILE_H
#define API_V1_VOLUME_FILE_H

#include "api/v1/v1.h"
#include "service/volume/volume.h"

/* Put the path of a request into @m, without redundant slashes; false: it was refused. */
bool volume_file_begin(struct call *c, struct warden_proto_volume *m, const char *path);
/* Answer with the contents of a file. */
void volume_file_read(struct call *c, const char *path);

/* Answers with the entry in the reply of the warden, a file that was written. */
typedef void (*volume_show_fn)(struct call *c, const char *path, const char *data,
			       size_t size);
/* Write the body of the request to the file that @m describes. */
void volume_write_begin(struct call *c, const struct warden_proto_volume *m,
			volume_show_fn show);

#endif /* API_V1_VOLUME_FILE_H */
