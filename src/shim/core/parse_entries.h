/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse_entries.h - convert file records of a script into entries of the protocol
 *
 * Each record follows an unpredictable mark. "s MODE UID GID SIZE MTIME INO NAME" has the
 * mode in hexadecimal digits; "i ..." has the mode in letters, as ls prints it. The time
 * is in seconds or in the form 2009-02-13T23:31:30. "l NAME" is followed by "t TARGET".
 * The last record is "end". @text has a NUL after its @size bytes, and is modified.
 */
#ifndef SHIM_CORE_PARSE_ENTRIES_H
#define SHIM_CORE_PARSE_ENTRIES_H

#include "base/buf.h"

#define ENTRIES_MARK 32 /* length of a mark */

/* Append all entries, with the targets of links, to @entries; false: "end" is missing. */
bool entries_all(char *text, size_t size, const char *mark, struct buf *entries);
/* Get the only entry, without its name; false: there is none. */
bool entries_one(char *text, size_t size, const char *mark, struct buf *entry);

#endif /* SHIM_CORE_PARSE_ENTRIES_H */
