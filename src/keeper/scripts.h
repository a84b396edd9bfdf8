/* SPDX-License-Identifier: Apache-2.0 */
/* scripts.h - what the image's own shell is told, in the words of POSIX and no others */
#ifndef KEEPER_SCRIPTS_H
#define KEEPER_SCRIPTS_H

#include "base/buf.h"

/*
 * For `sh -c`: MARK CWD OPTIONS COMMAND... becomes the command, in the directory, after a
 * line on stderr: "MARK ok PID STAT" (what /proc/self/stat says behind the name), or "MARK no
 * WHY", which is "cwd" or the name of an errno. Options: m, make the directory; n, the command's
 * stderr is /dev/null.
 */
extern const char script_start[];

/* For `sh -c`, with a mark: who and where we are, and our environment. */
extern const char script_learn[];

/* For a hand: the stat of every process; then, behind an empty line, whose environment has $m. */
extern const char script_processes[];

/* The errno whose words a tool's complaint ends in; @other: none that we know. */
int script_errno(const char *said, int other);

/* @text as one word of a shell's, whatever is in it. */
void script_quote(struct buf *out, const char *text);

#endif /* KEEPER_SCRIPTS_H */
