/* SPDX-License-Identifier: Apache-2.0 */
/* errno_names.h - names of errors and signals */
#ifndef BASE_ERRNO_NAMES_H
#define BASE_ERRNO_NAMES_H

/* "ENOENT", or NULL for a number that is no error. */
const char *errno_name(int code);

/* "TERM", or NULL for a number that is no signal with its own name. */
const char *signal_abbrev(int sig);

#endif /* BASE_ERRNO_NAMES_H */
