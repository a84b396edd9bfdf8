/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stock.c - ids of sandboxes whose parts the warden has made ahead
 *
 * A sandbox that is asked for gets one of them, as long as there are any. Nothing
 * depends on it: an id that the warden knows nothing of is made into a sandbox
 * as well, only later.
 */
#include <errno.h>
#include <string.h>

#include "service/internal.h"
#include "warden/wire.h"

void stock_hear(struct service *s, const struct wire_stock *msg, size_t size)
{
	const char(*ids)[16] = (const void *)(msg + 1);

	if (size < sizeof(*msg) || msg->n > WIRE_STOCK_MAX ||
	    size != sizeof(*msg) + msg->n * sizeof(*ids))
		return;
	s->figures.parts_wanted = msg->want;
	if (msg->all)
		s->n_stock = 0;
	for (uint32_t i = 0; i < msg->n; i++) {
		if (s->n_stock == ARRAY_SIZE(s->stock) || ids[i][ID_LEN] != '\0' ||
		    !id_valid(ids[i]) || box_find(s, NULL, ids[i]))
			continue;
		(void)memcpy(s->stock[s->n_stock++], ids[i], sizeof(s->stock[0]));
	}
	s->figures.parts_ready = s->n_stock;
}

size_t stock_take(struct service *s, struct sandbox_row *rows, size_t n)
{
	size_t done = 0;

	for (; done < n && s->n_stock > 0; done++)
		(void)memcpy(rows[done].id, s->stock[--s->n_stock],
			     sizeof(rows[done].id));
	s->figures.parts_taken += done;
	s->figures.parts_missed += n - done;
	s->figures.parts_ready = s->n_stock;
	return done;
}

void stock_return(struct service *s, const struct sandbox_row *rows, size_t n)
{
	for (size_t i = 0; i < n && s->n_stock < ARRAY_SIZE(s->stock); i++)
		(void)memcpy(s->stock[s->n_stock++], rows[i].id, sizeof(s->stock[0]));
	s->figures.parts_taken -= n;
	s->figures.parts_ready = s->n_stock;
}
