/* SPDX-License-Identifier: Apache-2.0 */
/* machine.h - the memory of this machine */
#ifndef SPEC_MACHINE_H
#define SPEC_MACHINE_H

#include <stdint.h>

#include "base/error.h"

/*
 * -EINVAL: a limit of @memory bytes is more than this machine has, and would have no
 * effect.
 */
int machine_check_memory(uint64_t memory, struct warren_error *err);

#endif /* SPEC_MACHINE_H */
