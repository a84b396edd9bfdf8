/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parse_entries.h - file records of a script, as entries of the protocol
 *
 * Records, each behind a mark that could not be foreseen: "s MODE UID GID SIZE MTIME INO
 * NAME", the mode in hexadecimal digits, or i, with the mode in ls's letters, and the
 * time in seconds or as 2009-02-13T23:31:30; "l NAME" and behind it "t TARGET"; "end".
 * @text is ended by a NUL behind its @size, and is written to.
 */
#ifndef SHIM_CORE_PARSE_ENTRIES_H
#define SHIM_CORE_PARSE_ENTRIES_H

#include "base/buf.h"

#define ENTRIES_MARK 32 /* characters of a mark */

/* All of them, with what each link says, added to @entries; false: there was no end. */
bool entries_all(char *text, size_t size, const char *mark, struct buf *entries);
/* The only one, without its name; false: there is none. */
bool entries_one(char *text, size_t size, const char *mark, struct buf *entry);

#endif /* SHIM_CORE_PARSE_ENTRIES_H */
