/* SPDX-License-Identifier: Apache-2.0 */
/* work_missing.h - say why a command of this machine does not exist in the sandbox */
#ifndef CLI_WORK_MISSING_H
#define CLI_WORK_MISSING_H

/*
 * The sandbox does not have the command @name. If this machine has it, in the home
 * directory for example, say which options show it.
 */
void work_missing_say(const char *name, const char *project);

#endif /* CLI_WORK_MISSING_H */
