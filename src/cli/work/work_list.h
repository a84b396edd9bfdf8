/* SPDX-License-Identifier: Apache-2.0 */
/* work_list.h - list and remove works */
#ifndef CLI_WORK_LIST_H
#define CLI_WORK_LIST_H

/* Print the works of this user; return the exit status. */
int work_list_print(void);
/* Discard a work; return the exit status. */
int work_list_remove(const char *id_or_name);

#endif /* CLI_WORK_LIST_H */
