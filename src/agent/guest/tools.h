/* SPDX-License-Identifier: Apache-2.0 */
/* tools.h - a shell that changes files without starting a program for each */
#ifndef AGENT_GUEST_TOOLS_H
#define AGENT_GUEST_TOOLS_H

/*
 * Run @shell with @envp and carry out its requests, read from TOOLS_ASK, until the shell
 * ends. Then exit with its status.
 *
 * A request is a count of words in decimal, then the words, each followed by a NUL. They
 * are a mkdir, rm, rmdir, chmod, chown, touch, mv or ln command in the forms that a
 * shim's scripts use (shim/core/scripts.c). The answer, written to TOOLS_ANSWER, is an
 * errno and a newline: 0 on success, ENOSYS for an unknown form.
 */
__attribute__((noreturn)) void tools_run(const char *shell, const char *const *envp);

#define TOOLS_ASK    8 /* descriptors in the shell, which supports only single digits */
#define TOOLS_ANSWER 9

#endif /* AGENT_GUEST_TOOLS_H */
