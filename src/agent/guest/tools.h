/* SPDX-License-Identifier: Apache-2.0 */
/* tools.h - a shell that changes files without starting a program for each */
#ifndef AGENT_GUEST_TOOLS_H
#define AGENT_GUEST_TOOLS_H

/*
 * Run @shell with @envp, and carry out its requests at TOOLS_ASK until it ends; the
 * process exits with its status.
 *
 * A request is the number of its words in decimal, then the words, each followed by a
 * NUL: those of a mkdir, rm, rmdir, chmod, chown, touch, mv or ln in the forms that the
 * scripts of a shim use (shim/core/scripts.c). The answer, at TOOLS_ANSWER, is an errno
 * and a newline: 0 on success, ENOSYS for an unknown form.
 */
__attribute__((noreturn)) void tools_run(const char *shell, const char *const *envp);

#define TOOLS_ASK    8 /* descriptors of the shell's: a shell knows those of one digit */
#define TOOLS_ANSWER 9

#endif /* AGENT_GUEST_TOOLS_H */
