/* SPDX-License-Identifier: Apache-2.0 */
/* warden_proto.c - requests to the warden: one side packs them, the other checks them */
#include "proto/warden_proto.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "spec/spec.h"

/* The size of each request, or its minimum size if strings follow. */
static const struct {
	size_t size;
	bool strings;
	bool id;
} shapes[WIRE_TYPE_MAX] = {
	[WIRE_CREATE] = { sizeof(struct warden_proto_create), true, true },
	[WIRE_CONNECT] = { sizeof(struct warden_proto_sandbox), false, true },
	[WIRE_DESTROY] = { sizeof(struct warden_proto_sandbox), false, true },
	[WIRE_PAUSE] = { sizeof(struct warden_proto_sandbox), false, true },
	[WIRE_CHECKPOINT] = { sizeof(struct warden_proto_sandbox), false, true },
	[WIRE_RESUME] = { sizeof(struct warden_proto_sandbox), false, true },
	[WIRE_STATS] = { sizeof(struct warden_proto_sandbox), false, true },
	[WIRE_UPDATE] = { sizeof(struct warden_proto_update), false, true },
	[WIRE_LIST] = { sizeof(struct warden_proto_list), false, false },
	[WIRE_IMAGE] = { sizeof(struct warden_proto_image), false, false },
	[WIRE_WORK] = { sizeof(struct warden_proto_work), false, false },
	[WIRE_PROBE] = { sizeof(struct warden_proto_header), false, false },
	[WIRE_HEALTH] = { sizeof(struct warden_proto_header), false, false },
	[WIRE_EGRESS] = { sizeof(struct warden_proto_header), false, false },
	[WIRE_VOLUME] = { sizeof(struct warden_proto_volume), false, true },
	[WIRE_CAPTURE] = { sizeof(struct warden_proto_sandbox), false, true },
	[WIRE_HIBERNATE] = { sizeof(struct warden_proto_sandbox), false, true },
	[WIRE_TRUST] = { sizeof(struct warden_proto_sandbox), false, true },
	[WIRE_DIFF] = { sizeof(struct warden_proto_diff), false, true },
	[WIRE_UNDO_KEEP] = { sizeof(struct warden_proto_sandbox), false, true },
	[WIRE_UNDO] = { sizeof(struct warden_proto_sandbox), false, true },
	[WIRE_UNDO_FORGET] = { sizeof(struct warden_proto_sandbox), false, true },
	[WIRE_SNAPSHOT] = { sizeof(struct warden_proto_snapshot), false, true },
	[WIRE_RESET] = { sizeof(struct warden_proto_sandbox), false, true },
	[WIRE_CANCEL] = { sizeof(struct warden_proto_cancel), false, false },
	[WIRE_UNDO_STARTED] = { sizeof(struct warden_proto_sandbox), false, true },
	[WIRE_UNDO_BACK] = { sizeof(struct warden_proto_sandbox), false, true },
	[WIRE_LIST_KEPT] = { sizeof(struct warden_proto_list), false, false },
};

/* Return the number of strings in warden_proto_create before the environment: the texts
 * of a spec. */
static size_t warden_proto_n_texts(void)
{
	size_t n = 0;

	for (size_t i = 0; i < spec_n_fields; i++)
		n += spec_fields[i].kind == SPEC_TEXT;
	return n;
}

/* Return the bits of all flags of a spec. */
static uint32_t warden_proto_flag_bits(void)
{
	uint32_t bits = 0;

	for (size_t i = 0; i < spec_n_fields; i++)
		bits |= spec_fields[i].wire_bit;
	return bits;
}

/* Are there exactly @n strings, and does the last one end the block? */
static bool strings_whole(const char *s, size_t size, size_t n)
{
	const char *end = s + size;

	for (; n > 0; n--) {
		const char *nul = s < end ? memchr(s, 0, (size_t)(end - s)) : NULL;

		if (!nul)
			return false;
		s = nul + 1;
	}
	return s == end;
}

/* An unknown bit could be a soft limit that this version cannot enforce. */
static bool flags_known(const struct warden_proto_create *c)
{
	for (uint32_t i = 0; i < c->n_mounts; i++)
		if (c->mounts[i].flags &
		    ~(WIRE_READ_ONLY | WIRE_TMPFS | WIRE_MOUNTS_VOLUME))
			return false;
	return !(c->flags & ~warden_proto_flag_bits()) &&
	       !(c->soft_limits & ~SPEC_LIMIT_BITS);
}

static bool create_whole(const struct warden_proto_create *c, size_t size)
{
	if (c->n_env > WIRE_ENV_MAX || c->n_mounts > WIRE_MOUNTS_MAX ||
	    c->strings_size != size - sizeof(*c) || !flags_known(c))
		return false;
	return strings_whole(c->strings, c->strings_size,
			     warden_proto_n_texts() + c->n_env + 2 * (size_t)c->n_mounts);
}

static bool image_whole(const struct warden_proto_image *i)
{
	return i->verb < WIRE_IMAGE_MAX && memchr(i->ref, 0, sizeof(i->ref)) &&
	       memchr(i->platform, 0, sizeof(i->platform)) &&
	       memchr(i->to, 0, sizeof(i->to)) &&
	       !(i->flags & ~(WIRE_IMAGE_MISSING | WIRE_IMAGE_FORCE | WIRE_IMAGE_OURS));
}

/* Only names and ids of works may reach a command line. */
static bool work_whole(const struct warden_proto_work *m)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
				      "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	const bool decides = m->verb == WIRE_WORK_ACCEPT || m->verb == WIRE_WORK_REJECT;
	const bool shows = m->verb == WIRE_WORK_CHANGES || m->verb == WIRE_WORK_DIFF;
	const uint32_t kinds = m->flags & (WIRE_WORK_PATCH | WIRE_WORK_PATHS);
	const uint32_t permitted = decides ? WIRE_WORK_PATCH | WIRE_WORK_PATHS
				   : shows ? WIRE_WORK_PATHS
					   : 0;

	if (m->verb >= WIRE_WORK_MAX || !memchr(m->work, 0, sizeof(m->work)) ||
	    !memchr(m->after, 0, sizeof(m->after)) ||
	    (m->after[0] && !id_valid(m->after)))
		return false;
	if (m->verb == WIRE_WORK_LIST
		    ? m->work[0] || !m->limit || m->limit > WIRE_WORK_LIST_MAX
		    : !m->work[0] || strchr("._-", m->work[0]) ||
			      strspn(m->work, letters) != strlen(m->work))
		return false;
	if (m->flags & ~(WIRE_WORK_IGNORED | WIRE_WORK_PATCH | WIRE_WORK_PATHS))
		return false;
	return (kinds & ~permitted) == 0 && (kinds & (kinds - 1)) == 0 &&
	       (kinds != 0) == (m->input != 0) && m->input <= WIRE_WORK_INPUT_MAX &&
	       m->allow < 1U << WIRE_WORK_ALLOW_N && m->conflicts < WIRE_WORK_CONFLICTS_N;
}

static bool volume_whole(const struct warden_proto_volume *v)
{
	bool copies = v->verb == WIRE_VOLUME_COPY;

	return v->verb < WIRE_VOLUME_VERB_MAX && memchr(v->from, 0, sizeof(v->from)) &&
	       (!copies || id_valid(v->from)) && memchr(v->name, 0, sizeof(v->name)) &&
	       !strchr(v->name, '/') && memchr(v->path, 0, sizeof(v->path)) &&
	       memchr(v->link, 0, sizeof(v->link)) && v->depth <= WIRE_VOLUME_DEPTH_MAX &&
	       !(v->flags & ~WIRE_VOLUME_FLAGS);
}

static bool snapshot_whole(const struct warden_proto_snapshot *m)
{
	return memchr(m->snapshot, 0, sizeof(m->snapshot)) && id_valid(m->snapshot);
}

static bool diff_whole(const struct warden_proto_diff *m)
{
	return memchr(m->image, 0, sizeof(m->image)) && m->seconds <= WIRE_DIFF_SECONDS;
}

int warden_proto_check(const void *data, size_t size)
{
	const struct warden_proto_header *h = data;
	const struct warden_proto_sandbox *sandbox = data;

	if (size < sizeof(*h) || h->type == 0 || h->type >= WIRE_TYPE_MAX ||
	    !memchr(h->backend, 0, sizeof(h->backend)))
		return -EPROTO;
	if (shapes[h->type].strings ? size < shapes[h->type].size
				    : size != shapes[h->type].size)
		return -EPROTO;
	if (shapes[h->type].id &&
	    (!memchr(sandbox->id, 0, sizeof(sandbox->id)) || !id_valid(sandbox->id)))
		return -EPROTO;
	if (h->type == WIRE_CREATE && !create_whole(data, size))
		return -EPROTO;
	if (h->type == WIRE_IMAGE && !image_whole(data))
		return -EPROTO;
	if (h->type == WIRE_WORK && !work_whole(data))
		return -EPROTO;
	if (h->type == WIRE_VOLUME && !volume_whole(data))
		return -EPROTO;
	if (h->type == WIRE_SNAPSHOT && !snapshot_whole(data))
		return -EPROTO;
	if (h->type == WIRE_DIFF && !diff_whole(data))
		return -EPROTO;
	if ((h->type == WIRE_LIST || h->type == WIRE_LIST_KEPT) &&
	    !memchr(((const struct warden_proto_list *)data)->after, 0,
		    sizeof(((const struct warden_proto_list *)data)->after)))
		return -EPROTO;
	return 0;
}

const char *warden_proto_id(const void *data)
{
	const struct warden_proto_sandbox *sandbox = data;

	return shapes[sandbox->h.type].id ? sandbox->id : NULL;
}

int warden_proto_put_backend(struct warden_proto_header *h, const char *name)
{
	if (strlen(name) >= sizeof(h->backend))
		return -ENAMETOOLONG;
	(void)memset(h->backend, 0, sizeof(h->backend));
	(void)memcpy(h->backend, name, strlen(name));
	return 0;
}

void warden_proto_put_tenant(struct warden_proto_header *h, const char *tenant)
{
	h->share = 2166136261U; /* FNV-1a */
	for (; *tenant; tenant++)
		h->share = (h->share ^ (unsigned char)*tenant) * 16777619U;
}

static void warden_proto_put(struct buf *out, const char *s)
{
	buf_add(out, s ? s : "", strlen(s ? s : "") + 1);
}

int warden_proto_put_create(struct buf *out, const char *backend, const char *id,
			    const struct warren_spec *spec)
{
	struct warden_proto_create head = {
		.h = { .type = WIRE_CREATE },
		.network = spec->network,
		.n_mounts = (uint32_t)spec->n_mounts,
		.soft_limits = (uint32_t)spec->soft_limits,
	};
	size_t at = out->len;

	if (spec->n_mounts > WIRE_MOUNTS_MAX ||
	    warden_proto_put_backend(&head.h, backend) < 0)
		return -E2BIG;
	(void)strncpy(head.id, id, sizeof(head.id) - 1);
	for (size_t i = 0; i < SPEC_LIMIT_MAX; i++)
		head.limits[i] = spec_limit_get(spec, i);
	for (size_t i = 0; i < spec_n_fields; i++)
		if (spec_fields[i].wire_bit && spec_flag_get(spec, &spec_fields[i]))
			head.flags |= spec_fields[i].wire_bit;
	for (size_t i = 0; i < spec->n_mounts; i++) {
		head.mounts[i].size = spec->mounts[i].size;
		head.mounts[i].flags = (spec->mounts[i].read_only ? WIRE_READ_ONLY : 0) |
				       (spec->mounts[i].source ? 0 : WIRE_TMPFS) |
				       (spec->mounts[i].volume ? WIRE_MOUNTS_VOLUME : 0);
	}
	buf_add(out, &head, sizeof(head));
	for (size_t i = 0; i < spec_n_fields; i++)
		if (spec_fields[i].kind == SPEC_TEXT)
			warden_proto_put(out, spec_text_get(spec, &spec_fields[i]));
	for (; spec->env && spec->env[head.n_env]; head.n_env++)
		warden_proto_put(out, spec->env[head.n_env]);
	for (size_t i = 0; i < spec->n_mounts; i++) {
		warden_proto_put(out, spec->mounts[i].source);
		warden_proto_put(out, spec->mounts[i].target);
	}
	if (out->failed || head.n_env > WIRE_ENV_MAX || out->len - at > WIRE_MESSAGE_MAX)
		return out->failed && !out->full ? -ENOMEM : -E2BIG;
	head.strings_size = (uint32_t)(out->len - at - sizeof(head));
	(void)memcpy(out->data + at, &head, sizeof(head));
	return 0;
}

static const char *warden_proto_take(const char **at)
{
	const char *s = *at;

	*at += strlen(s) + 1;
	return s;
}

static const char *take_or_null(const char **at)
{
	const char *s = warden_proto_take(at);

	return *s ? s : NULL;
}

void warden_proto_get_create(const struct warden_proto_create *msg,
			     struct warren_spec *spec, const char **env,
			     struct warren_mount *mounts)
{
	const char *at = msg->strings;

	*spec = (struct warren_spec){
		.id = msg->id,
		.soft_limits = msg->soft_limits,
		.network = (enum warren_network)msg->network,
		.durable = true,
		.env = env,
		.mounts = mounts,
		.n_mounts = msg->n_mounts,
	};
	for (size_t i = 0; i < SPEC_LIMIT_MAX; i++)
		spec_limit_set(spec, i, msg->limits[i]);
	for (size_t i = 0; i < spec_n_fields; i++) {
		const struct spec_field *f = &spec_fields[i];

		if (f->kind == SPEC_TEXT)
			spec_text_set(spec, f, take_or_null(&at));
		else if (f->wire_bit)
			spec_flag_set(spec, f, msg->flags & f->wire_bit);
	}
	for (uint32_t i = 0; i < msg->n_env; i++)
		env[i] = warden_proto_take(&at);
	env[msg->n_env] = NULL;
	for (uint32_t i = 0; i < msg->n_mounts; i++) {
		const char *source = warden_proto_take(&at);

		mounts[i] = (struct warren_mount){
			.source = msg->mounts[i].flags & WIRE_TMPFS ? NULL : source,
			.target = warden_proto_take(&at),
			.read_only = msg->mounts[i].flags & WIRE_READ_ONLY,
			.size = msg->mounts[i].size,
			.volume = msg->mounts[i].flags & WIRE_MOUNTS_VOLUME,
		};
	}
}
