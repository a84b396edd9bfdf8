/* SPDX-License-Identifier: Apache-2.0 */
/* clip.c - the beginning and the end of a stream of output that may be long */
#include <stdlib.h>
#include <string.h>

#include "api/mcp/internal.h"

void mcp_clip_init(struct mcp_clip *c, size_t max)
{
	*c = (struct mcp_clip){ .half = max / 2, .head = BUF_INIT(max / 2) };
}

void mcp_clip_done(struct mcp_clip *c)
{
	buf_done(&c->head);
	free(c->tail);
	c->tail = NULL;
}

void mcp_clip_add(struct mcp_clip *c, const void *data, size_t n)
{
	const char *from = data;
	size_t room = c->half - c->head.len, take = n < room ? n : room;

	c->total += n;
	buf_add(&c->head, from, take);
	from += take;
	n -= take;
	if (n == 0)
		return;
	if (!c->tail)
		c->tail = malloc(c->half);
	if (!c->tail || c->head.failed) {
		c->failed = true;
		return;
	}
	if (n > c->half) {
		from += n - c->half;
		n = c->half;
	}
	for (size_t left = n; left > 0;) {
		size_t piece = c->half - c->at < left ? c->half - c->at : left;

		(void)memcpy(c->tail + c->at, from, piece);
		c->at = (c->at + piece) % c->half;
		from += piece;
		left -= piece;
	}
	c->n_tail = c->n_tail + n < c->half ? c->n_tail + n : c->half;
}

static uint64_t clip_missing(const struct mcp_clip *c)
{
	return c->total - c->head.len - c->n_tail + c->lost;
}

bool mcp_clip_is_cut(const struct mcp_clip *c)
{
	return c->failed || clip_missing(c) > 0;
}

void mcp_clip_text(const struct mcp_clip *c, struct buf *out)
{
	size_t start = (c->at + c->half - c->n_tail) % (c->half ? c->half : 1);
	size_t first = c->half - start < c->n_tail ? c->half - start : c->n_tail;

	buf_add(out, c->head.data, c->head.len);
	if (clip_missing(c) > 0)
		buf_printf(out, "\n[... %ju bytes of output are not shown ...]\n",
			   (uintmax_t)clip_missing(c));
	if (c->n_tail > 0) {
		buf_add(out, c->tail + start, first);
		buf_add(out, c->tail, c->n_tail - first);
	}
}

void mcp_clip_write(struct json *j, const char *key, const struct mcp_clip *c)
{
	AUTO_BUF struct buf text = BUF_INIT(2 * c->half + 256);

	mcp_clip_text(c, &text);
	json_strn(j, key, text.data ? text.data : "", text.len);
}
