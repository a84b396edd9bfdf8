/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - what the files of this room share */
#ifndef SERVICE_FILES_INTERNAL_H
#define SERVICE_FILES_INTERNAL_H

#include "service/core/room.h"
#include "service/files/files.h"

/* What the room keeps for a sandbox. */
struct sandbox_files {
	struct files *list; /* users of its files */
};

/* What it keeps for the service: of inotify(7), instances, and directories or files. */
struct service_files {
	struct fair_quota watches, watched;
};

static inline struct sandbox_files *sandbox_files(const struct sandbox *sandbox)
{
	return sandbox->rooms[ROOM_FILES];
}

static inline struct service_files *service_files(const struct service *s)
{
	return s->rooms[ROOM_FILES];
}

/* files.c */
void files_sandbox_gone(struct sandbox *sandbox);
void files_held(const struct sandbox *sandbox, struct sandbox_held *sum);

#endif /* SERVICE_FILES_INTERNAL_H */
