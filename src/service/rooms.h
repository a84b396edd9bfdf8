/* SPDX-License-Identifier: Apache-2.0 */
/* rooms.h - the modules of the service: see service/core/hooks.h */
#ifndef SERVICE_ROOMS_H
#define SERVICE_ROOMS_H

#include "service/core/hooks.h"

/*
 * All modules, for struct service_options; NULL-terminated. Each module comes after those
 * that it uses.
 */
extern const struct service_room *const service_rooms[];

#endif /* SERVICE_ROOMS_H */
