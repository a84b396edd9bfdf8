/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pool_ids.c - ids of sandboxes that the warden has prepared in advance
 *
 * A new sandbox gets one of these ids if there are any. This only saves time: the warden
 * also creates sandboxes with other ids, but more slowly.
 */
#include <errno.h>
#include <string.h>

#include "proto/warden_proto.h"
#include "service/core/internal.h"

void pool_ids_hear(struct service *s, const struct warden_proto_pool *msg, size_t size)
{
	const char(*ids)[16] = (const void *)(msg + 1);

	if (size < sizeof(*msg) || msg->n > WIRE_STOCK_MAX ||
	    size != sizeof(*msg) + msg->n * sizeof(*ids))
		return;
	s->metrics.parts_wanted = msg->want;
	if (msg->all)
		s->n_stock = 0;
	for (uint32_t i = 0; i < msg->n; i++) {
		if (s->n_stock == ARRAY_SIZE(s->stock) || ids[i][ID_LEN] != '\0' ||
		    !id_valid(ids[i]) || sandbox_find(s, NULL, ids[i]))
			continue;
		(void)memcpy(s->stock[s->n_stock++], ids[i], sizeof(s->stock[0]));
	}
	s->metrics.parts_ready = s->n_stock;
}

static bool is_native(const struct sandbox_row *row)
{
	return strcmp(row->backend, WIRE_NATIVE) == 0;
}

size_t pool_ids_take(struct service *s, struct sandbox_row *rows, size_t n)
{
	size_t end = 0;

	for (size_t i = 0; i < n; i++) {
		if (!is_native(&rows[i]))
			continue;
		s->metrics.parts_missed += s->n_stock == 0;
		if (s->n_stock == 0)
			continue;
		(void)memcpy(rows[i].id, s->stock[--s->n_stock], sizeof(rows[i].id));
		s->metrics.parts_taken++;
		end = i + 1;
	}
	s->metrics.parts_ready = s->n_stock;
	return end;
}

void pool_ids_return(struct service *s, const struct sandbox_row *rows, size_t n)
{
	for (size_t i = 0; i < n && s->n_stock < ARRAY_SIZE(s->stock); i++) {
		if (!is_native(&rows[i]))
			continue;
		(void)memcpy(s->stock[s->n_stock++], rows[i].id, sizeof(s->stock[0]));
		s->metrics.parts_taken--;
	}
	s->metrics.parts_ready = s->n_stock;
}
