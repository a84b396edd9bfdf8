/* SPDX-License-Identifier: Apache-2.0 */
/* modules.h - the modules of the service: see service/core/hooks.h */
#ifndef SERVICE_MODULES_H
#define SERVICE_MODULES_H

#include "service/core/hooks.h"

/*
 * All modules, for struct service_options; NULL-terminated. Each module comes after those
 * that it uses.
 */
extern const struct service_module *const service_modules[];

#endif /* SERVICE_MODULES_H */
