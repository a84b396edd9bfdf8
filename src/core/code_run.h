/* SPDX-License-Identifier: Apache-2.0 */
/* code_run.h - the parts of warren_code() */
#ifndef CORE_CODE_RUN_H
#define CORE_CODE_RUN_H

#include "code/plan.h"
#include "warren.h"

/* code_artifacts.c: read the files in /sandbox that match the plan's globs. */
int code_artifacts_read(struct warren_sandbox *sb, const struct code_plan *plan,
			struct warren_code_result *ret, struct warren_error *err);

#endif /* CORE_CODE_RUN_H */
