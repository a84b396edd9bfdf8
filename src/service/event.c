/* SPDX-License-Identifier: Apache-2.0 */
/* event.c - what happened: the last few thousand, numbered, for those who listen */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/internal.h"

static const char *const names[] = {
	[EVENT_SANDBOX_CREATED] = "sandbox.created",
	[EVENT_SANDBOX_STARTED] = "sandbox.running",
	[EVENT_SANDBOX_PAUSED] = "sandbox.paused",
	[EVENT_SANDBOX_RESUMED] = "sandbox.resumed",
	[EVENT_SANDBOX_UPDATED] = "sandbox.updated",
	[EVENT_SANDBOX_FAILED] = "sandbox.failed",
	[EVENT_SANDBOX_DELETED] = "sandbox.deleted",
	[EVENT_EXEC_STARTED] = "exec.started",
	[EVENT_EXEC_FINISHED] = "exec.finished",
	[EVENT_OOM] = "sandbox.oom",
	[EVENT_SESSION_OPENED] = "session.opened",
	[EVENT_SESSION_CLOSED] = "session.closed",
	[EVENT_IMAGE_PULLED] = "image.pulled",
	[EVENT_IMAGE_REMOVED] = "image.removed",
};

_Static_assert(ARRAY_SIZE(names) == EVENT_TYPE_MAX, "an event has no name");

const char *event_type_name(enum event_type type)
{
	return names[type];
}

/* In the place of the oldest. */
static struct event *add(struct service *s, enum event_type type)
{
	struct event *e = &s->events[s->last_event % EVENTS_KEPT];

	free(e->image);
	*e = (struct event){
		.id = ++s->last_event, .at = service_time(), .type = type, .state = -1
	};
	return e;
}

static void tell(struct service *s)
{
	struct event_listener *next;

	for (struct event_listener *l = s->listeners; l; l = next) {
		next = l->next;
		l->fn(l);
	}
}

void event_emit(struct service *s, enum event_type type, const struct box *box,
		const char *object, const struct warren_result *result)
{
	struct event *e = add(s, type);

	if (type != EVENT_SANDBOX_DELETED)
		e->state = (int)box->row.state;
	e->reason = object ? NULL : box->reason;
	if (result)
		e->result = *result;
	(void)snprintf(e->owner, sizeof(e->owner), "%s", box->row.owner);
	(void)memcpy(e->sandbox, box->row.id, sizeof(e->sandbox));
	if (object)
		(void)snprintf(e->object, sizeof(e->object), "%s", object);
	tell(s);
}

void event_emit_image(struct service *s, enum event_type type, const char *ref)
{
	add(s, type)->image = strdup(ref);
	tell(s);
}

void event_free_all(struct service *s)
{
	for (size_t i = 0; i < EVENTS_KEPT; i++)
		free(s->events[i].image);
}

uint64_t event_first(const struct service *s)
{
	uint64_t kept = s->last_event - s->first_event;

	return kept > EVENTS_KEPT ? s->last_event - EVENTS_KEPT : s->first_event;
}

const struct event *event_after(const struct service *s, uint64_t id)
{
	uint64_t first = event_first(s);

	if (id < first)
		id = first;
	return id < s->last_event ? &s->events[id % EVENTS_KEPT] : NULL;
}

uint64_t event_last(const struct service *s)
{
	return s->last_event;
}

void event_listen(struct service *s, struct event_listener *l)
{
	l->next = s->listeners;
	l->prev = &s->listeners;
	if (l->next)
		l->next->prev = &l->next;
	s->listeners = l;
}

void event_unlisten(struct event_listener *l)
{
	if (!l->prev)
		return;
	*l->prev = l->next;
	if (l->next)
		l->next->prev = l->prev;
	l->prev = NULL;
}
