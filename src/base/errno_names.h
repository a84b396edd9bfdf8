/* SPDX-License-Identifier: Apache-2.0 */
/* errno_names.h - names of errors and signals */
#ifndef BASE_ERRNO_NAMES_H
#define BASE_ERRNO_NAMES_H

/* A name such as "ENOENT", or NULL for an unknown number. */
const char *errno_name(int code);

/* A name such as "TERM", or NULL for a number that is not a named signal. */
const char *signal_abbrev(int sig);

#endif /* BASE_ERRNO_NAMES_H */
