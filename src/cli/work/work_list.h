/* SPDX-License-Identifier: Apache-2.0 */
/* work_list.h - list and remove works */
#ifndef CLI_WORK_LIST_H
#define CLI_WORK_LIST_H

#include "base/json.h"
#include "work/work.h"

/* Print the works of this user; return the exit status. */
int work_list_print(bool json);
/* Discard works, and print their ids (unless @quiet); return the exit status. */
int work_list_remove(const char *id_or_name, char **more, bool quiet);
/* The work as one object. */
void work_list_json(struct json *j, const struct work_item *w);

#endif /* CLI_WORK_LIST_H */
