/* SPDX-License-Identifier: Apache-2.0 */
/* internal.h - shared by the files of this module */
#ifndef SERVICE_FILES_INTERNAL_H
#define SERVICE_FILES_INTERNAL_H

#include "service/core/module.h"
#include "service/files/files.h"

/* The state of the module for a sandbox. */
struct sandbox_files {
	struct files *list; /* current users of its files */
};

/* The state of the module for the service: inotify(7) instances and watches. */
struct service_files {
	struct fair_quota watches, watched;
};

static inline struct sandbox_files *sandbox_files(const struct sandbox *sandbox)
{
	return sandbox->modules[MODULE_FILES];
}

static inline struct service_files *service_files(const struct service *s)
{
	return s->modules[MODULE_FILES];
}

/* files.c */
void files_sandbox_gone(struct sandbox *sandbox);
void files_held(const struct sandbox *sandbox, struct sandbox_held *sum);

#endif /* SERVICE_FILES_INTERNAL_H */
