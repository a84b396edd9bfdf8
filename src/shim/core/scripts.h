/* SPDX-License-Identifier: Apache-2.0 */
/* scripts.h - scripts for the image's own shell, in POSIX shell only */
#ifndef SHIM_CORE_SCRIPTS_H
#define SHIM_CORE_SCRIPTS_H

#include "base/buf.h"

/*
 * For `sh -c`: MARK CWD OPTIONS COMMAND... becomes the command, in the directory, after a
 * line on stderr: "MARK ok PID STAT" (what /proc/self/stat says behind the name), or
 * "MARK no WHY", which is "cwd" or the name of an errno. Options: m, make the directory;
 * n, the command's stderr is /dev/null.
 */
extern const char script_start[];

/* For `sh -c`, with a mark: who and where we are, and our environment. */
extern const char script_learn[];

/*
 * For a hand: the stat of every process; then, behind an empty line, whose environment
 * has $m.
 */
extern const char script_processes[];

/*
 * Before a script that needs tools: `need TOOL...` has the first of them that there is in
 * $t, or says what the image lacks (script_errno() knows that), and fails; `pour` copies
 * stdin to stdout by one of script_pour. Tools that are there as a part of busybox alone
 * are found in it.
 */
extern const char script_tools[];
/* Behind script_tools, in a shell that the guest agent has started. */
extern const char script_served[];
#define script_pour "cat dd tail"

/* How a complaint begins that an image lacks something. */
#define SCRIPT_LACKS "the image has no"
#define SCRIPT_ERRNO "guest agent: errno "

/*
 * The errno whose words a tool's complaint ends in; @other: none that we know. @ret_why
 * (or NULL): what is to be told in the complaint's own words, being more than the errno
 * says; or NULL.
 */
int script_errno(const char *said, int other, const char **ret_why);

/* @text as one word of a shell's, whatever is in it. */
void script_quote(struct buf *out, const char *text);

#endif /* SHIM_CORE_SCRIPTS_H */
