/* SPDX-License-Identifier: Apache-2.0 */
/*
 * default_path.h - directories of programs if neither the image of a sandbox nor its
 * client sets PATH; the same directories as in docker
 */
#ifndef BASE_DEFAULT_PATH_H
#define BASE_DEFAULT_PATH_H

#define DEFAULT_PATH     "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define DEFAULT_PATH_ENV ("PATH=" DEFAULT_PATH)

#endif /* BASE_DEFAULT_PATH_H */
