/* SPDX-License-Identifier: Apache-2.0 */
/* rooms.h - the rooms of the service: see service/core/hooks.h */
#ifndef SERVICE_ROOMS_H
#define SERVICE_ROOMS_H

#include "service/core/hooks.h"

/*
 * All of them, for struct service_options; NULL-terminated. A room stands after those
 * that it uses.
 */
extern const struct service_room *const service_rooms[];

#endif /* SERVICE_ROOMS_H */
