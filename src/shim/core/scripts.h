/* SPDX-License-Identifier: Apache-2.0 */
/* scripts.h - scripts for the image's shell, in POSIX syntax only */
#ifndef SHIM_CORE_SCRIPTS_H
#define SHIM_CORE_SCRIPTS_H

#include "base/buf.h"

/*
 * For `sh -c`, with arguments MARK CWD OPTIONS COMMAND...: change to the directory, print
 * a line on stderr, and execute the command. The line is "MARK ok PID STAT" (STAT is the
 * part of /proc/self/stat after the name), or "MARK no WHY", where WHY is "cwd" or the
 * name of an errno. Options: m, create the directory; n, the command's stderr is
 * /dev/null.
 */
extern const char script_start[];

/*
 * For `sh -c`, with arguments MARK CHECK: print MARK, and then the user, the directory
 * and the environment of the shell. If CHECK is not empty, also report if `ls` does not
 * work.
 */
extern const char script_learn[];

/*
 * For a pooled shell: print the stat of every process; then, after an empty line, the
 * processes that have $m in their environment.
 */
extern const char script_processes[];

/*
 * Put this before a script that needs tools. `need TOOL...` sets $t to the first tool
 * that exists, or fails with a message about what the image lacks, which script_errno()
 * recognises. `pour` copies stdin to stdout with the first available tool of script_pour.
 * Tools that exist only within busybox are found too.
 */
extern const char script_tools[];
/* Follows script_tools in a shell that the guest agent has started. */
extern const char script_served[];
#define script_pour "cat dd tail"

/* Beginning of a message that the image lacks something. */
#define SCRIPT_LACKS "the image has no"
#define SCRIPT_ERRNO "guest agent: errno "

/*
 * Get the errno whose text a tool's message ends with, or @other if there is none.
 * *@ret_why (@ret_why may be NULL) is the part of the message that says more than the
 * errno, or NULL.
 */
int script_errno(const char *said, int other, const char **ret_why);

/* Append @text as one quoted shell word, whatever it contains. */
void script_quote(struct buf *out, const char *text);

#endif /* SHIM_CORE_SCRIPTS_H */
