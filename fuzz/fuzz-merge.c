/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-merge.c - a difference leads from one text to the other, even when it is written
 * and parsed as a patch; a merge with an unchanged copy is the other copy
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "textdiff/merge.h"
#include "textdiff/unified.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct merge_labels labels = { .ours = "a", .theirs = "b" };

static void check_merge(struct text base, struct text ours, struct text theirs,
			const struct text *wanted)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct buf out = BUF_INIT((size_t)1 << 26);
	size_t conflicts = 0;

	assert(text_merge3(base, ours, theirs, &labels, &out, &conflicts, &err) == 0);
	if (wanted)
		assert(!conflicts && text_equal(TEXT(out.data, out.len), *wanted));
	buf_done(&out);
}

static void check_apply(const struct patch *p, struct text old, struct text new)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct buf out = BUF_INIT((size_t)1 << 26);

	assert(patch_apply(p, old, &out, &err) == 0);
	assert(text_equal(TEXT(out.data, out.len), new));
	buf_done(&out);
}

static void check_patch(struct text old, struct text new)
{
	struct unified_side a = { "f", 0100644, old }, b = { "f", 0100644, new };
	struct unified_options o = { .context = PATCH_CONTEXT, .binary = true };
	struct warren_error err = WARREN_ERROR_INIT;
	struct buf out = BUF_INIT((size_t)1 << 26);
	struct patches p;

	assert(unified_write(&out, &a, &b, &o, &err) == 0);
	assert(patches_parse(TEXT(out.data, out.len), &p, &err) == 0);
	assert(p.n == !text_equal(old, new));
	if (p.n && p.v[0].binary)
		assert(text_equal(TEXT(p.v[0].forward.data, p.v[0].forward.len), new) &&
		       text_equal(TEXT(p.v[0].reverse.data, p.v[0].reverse.len), old));
	else if (p.n)
		check_apply(&p.v[0], old, new);
	patches_done(&p);
	buf_done(&out);
}

/* Both halves of the hunks, applied one after the other, have the same effect as all. */
static void check_split(struct text old, struct text new)
{
	struct warren_error err = WARREN_ERROR_INIT;
	struct buf out = BUF_INIT((size_t)1 << 26);
	struct text_diff d;
	struct patch p;

	assert(text_diff_make(old, new, &d, &err) == 0);
	assert(patch_from_diff(&d, PATCH_CONTEXT, &p, &err) == 0);
	for (size_t i = 0; i < p.n && i < 100; i++)
		assert(patch_split(&p, i, &err) == 0);
	check_apply(&p, old, new);
	for (size_t i = 0; i < p.n; i += 2)
		p.v[i].skip = true;
	assert(patch_apply(&p, old, &out, &err) == 0);
	for (size_t i = 0; i < p.n; i++)
		p.v[i].skip = true;
	check_apply(&p, old, old);
	patch_done(&p);
	text_diff_done(&d);
	buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct text t[3] = { 0 };
	size_t at = 0;

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		const uint8_t *end =
			at < size ? memchr(data + at, 0xff, size - at) : NULL;
		size_t n = (end ? (size_t)(end - data) : size) - at;

		t[i] = TEXT((const char *)data + at, n);
		at = end ? at + n + 1 : size;
	}
	check_patch(t[0], t[1]);
	check_split(t[0], t[1]);
	check_merge(t[0], t[1], t[2], NULL);
	check_merge(t[0], t[0], t[1], &t[1]);
	check_merge(t[0], t[1], t[0], &t[1]);
	check_merge(t[0], t[1], t[1], &t[1]);
	return 0;
}
