/* SPDX-License-Identifier: Apache-2.0 */
/* watch.c - changes of files: as a stream, or collected until the client asks */
#include "api/e2b/fs_call.h"
#include "service/files/watch.h"

void e2b_fs_watch_dir(struct call *c)
{
	call_refuse(c, API_ERR_NOT_SUPPORTED, "not supported");
}

void e2b_fs_create_watcher(struct call *c)
{
	call_refuse(c, API_ERR_NOT_SUPPORTED, "not supported");
}

void e2b_fs_get_watcher_events(struct call *c)
{
	call_refuse(c, API_ERR_NOT_SUPPORTED, "not supported");
}

void e2b_fs_remove_watcher(struct call *c)
{
	call_refuse(c, API_ERR_NOT_SUPPORTED, "not supported");
}
