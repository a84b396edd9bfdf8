/* SPDX-License-Identifier: Apache-2.0 */
/* path.h - the path of a file in a sandbox, as a client writes it */
#ifndef API_PATH_H
#define API_PATH_H

#include <stdbool.h>

#define API_PATH_MAX 4096

/*
 * Convert @path to the form that service/files/files.h requires: absolute, without
 * redundant slashes, "." and "..". A relative path starts at @workdir. False: it is too
 * long.
 */
bool api_path(const char *workdir, const char *path, char out[API_PATH_MAX]);

#endif /* API_PATH_H */
