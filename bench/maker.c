/* SPDX-License-Identifier: Apache-2.0 */
/* maker.c - Warren's engine, in the form that the benchmarks use */
#include "bench.h"

int engine_open(const struct bench *b, bool trace, struct warren **ret,
		struct warren_error *err)
{
	return warren_open(
		&(struct warren_options){ .run_dir = b->run_dir,
					  .trace = trace,
					  .engine_name = b->ahead ? "bench" : NULL },
		ret, err);
}

static int ours_open(const struct bench *b, void **ret, struct warren_error *err)
{
	struct warren *w = NULL;
	int r = engine_open(b, false, &w, err);

	*ret = w;
	return r;
}

static void ours_close(void *state)
{
	(void)warren_close(state);
}

static int ours_make(void *state, void **ret_sandbox, struct warren_error *err)
{
	struct warren_sandbox *sb = NULL;
	int r = warren_create(state, &(struct warren_spec){ 0 }, &sb, err);

	*ret_sandbox = sb;
	return r;
}

static int ours_unmake(void *sandbox, struct warren_error *err)
{
	return warren_destroy(sandbox, err);
}

const struct maker maker_warren = {
	.prefix = "",
	.open = ours_open,
	.close = ours_close,
	.make = ours_make,
	.unmake = ours_unmake,
};

const struct maker *const makers[2] = { &maker_warren, &maker_floor };
