/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-warden.c - a compromised api against a real warden
 *
 * Every request of the table is sent with contents that an honest api would never send:
 * wrong sizes, unterminated strings, options instead of names, limits above all maxima,
 * ids of others, the same request twice at the same time. Next to each refusal is a
 * request that is granted, so that a dead warden does not pass.
 */
#include "lib/warden-api.h"

#include <sys/eventfd.h>
#include <sys/mman.h>

#include "proto/init_proto.h"

#define ID_A "cccccccccc22"
#define ID_B "cccccccccc33"
#define ID_C "cccccccccccc"

/* Check that the warden answers and works. */
static void is_well(void)
{
	struct warren_spec spec = modest();

	GRANTED(create("native", ID_C, &spec));
	OK(lives("native", ID_C));
	GRANTED(api_sandbox(WIRE_DESTROY, "native", ID_C));
	OK(!lives("native", ID_C));
}

/* ------------------------------------------------------------------------ messages */

TEST(empty_messages_do_not_end_a_thread)
{
	int pair[2];

	warden_begin();
	EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	for (int i = 0; i < 64; i++) {
		api_say("", 0, NULL, 0);
		api_say("x", 1, NULL, 0);
		api_say("", 0, pair, 2); /* unexpected descriptors */
		api_say("x", 1, pair, 2);
	}
	(void)close(pair[1]);
	is_well();
	/* The warden has closed all of them. */
	EQ(recv(pair[0], &(char){ 0 }, 1, 0), 0);
	warden_end();
}

/* Sizes of each request, as in wire.h. */
static const size_t sizes[WIRE_TYPE_MAX] = {
	[WIRE_CREATE] = sizeof(struct warden_proto_create),
	[WIRE_CONNECT] = sizeof(struct warden_proto_sandbox),
	[WIRE_DESTROY] = sizeof(struct warden_proto_sandbox),
	[WIRE_PAUSE] = sizeof(struct warden_proto_sandbox),
	[WIRE_CHECKPOINT] = sizeof(struct warden_proto_sandbox),
	[WIRE_RESUME] = sizeof(struct warden_proto_sandbox),
	[WIRE_STATS] = sizeof(struct warden_proto_sandbox),
	[WIRE_UPDATE] = sizeof(struct warden_proto_update),
	[WIRE_LIST] = sizeof(struct warden_proto_list),
	[WIRE_IMAGE] = sizeof(struct warden_proto_image),
	[WIRE_PROBE] = sizeof(struct warden_proto_header),
	[WIRE_HEALTH] = sizeof(struct warden_proto_header),
	[WIRE_CAPTURE] = sizeof(struct warden_proto_sandbox),
	[WIRE_EGRESS] = sizeof(struct warden_proto_header),
	[WIRE_VOLUME] = sizeof(struct warden_proto_volume),
	[WIRE_HIBERNATE] = sizeof(struct warden_proto_sandbox),
	[WIRE_TRUST] = sizeof(struct warden_proto_sandbox),
	[WIRE_DIFF] = sizeof(struct warden_proto_diff),
	[WIRE_UNDO_KEEP] = sizeof(struct warden_proto_sandbox),
	[WIRE_UNDO] = sizeof(struct warden_proto_sandbox),
	[WIRE_UNDO_FORGET] = sizeof(struct warden_proto_sandbox),
	[WIRE_SNAPSHOT] = sizeof(struct warden_proto_snapshot),
	[WIRE_RESET] = sizeof(struct warden_proto_sandbox),
	[WIRE_CANCEL] = sizeof(struct warden_proto_cancel),
	[WIRE_UNDO_STARTED] = sizeof(struct warden_proto_sandbox),
	[WIRE_UNDO_BACK] = sizeof(struct warden_proto_sandbox),
	[WIRE_LIST_KEPT] = sizeof(struct warden_proto_list),
	[WIRE_WORK] = sizeof(struct warden_proto_work),
};

TEST(a_request_with_a_wrong_size_or_type_is_refused)
{
	static char msg[WIRE_MESSAGE_MAX + 64];
	struct warden_proto_header *h = (void *)msg;

	warden_begin();
	for (uint32_t type = 0; type < WIRE_TYPE_MAX + 80; type++) {
		size_t whole =
			type > 0 && type < WIRE_TYPE_MAX ? sizes[type] : sizeof(*h);
		const size_t tries[] = { sizeof(*h), whole - 1, whole + 1, whole + 64,
					 sizeof(msg) / 2 };

		for (size_t i = 0; i < ARRAY_SIZE(tries); i++) {
			(void)memset(msg, 0, sizeof(msg));
			h->type = type;
			(void)strcpy(h->backend, "native");
			if (tries[i] < sizeof(*h) ||
			    (type > 0 && type < WIRE_TYPE_MAX && tries[i] == whole))
				continue;
			REFUSED(EPROTO, api_ask(msg, tries[i]));
		}
	}
	/*
	 * A message that is longer than any request is dropped, and nothing waits for it.
	 */
	(void)fd_send(api.sock, msg, sizeof(msg), NULL, 0);
	is_well();
	warden_end();
}

TEST(unterminated_strings_and_unknown_bits_are_refused)
{
	struct warren_spec spec = modest();
	struct warden_proto_sandbox sandbox = { .h = { .type = WIRE_STATS,
						       .backend = "native" } };
	struct warden_proto_image image = { .h = { .type = WIRE_IMAGE },
					    .verb = WIRE_IMAGE_INSPECT };
	struct warden_proto_create *c;
	struct buf msg;

	warden_begin();
	(void)memset(sandbox.id, 'a', sizeof(sandbox.id));
	REFUSED(EPROTO, api_ask(&sandbox, sizeof(sandbox)));
	(void)strcpy(sandbox.id, "../../../etc");
	REFUSED(EPROTO, api_ask(&sandbox, sizeof(sandbox)));
	(void)strcpy(sandbox.id, "");
	REFUSED(EPROTO, api_ask(&sandbox, sizeof(sandbox)));
	(void)memset(sandbox.h.backend, 'n', sizeof(sandbox.h.backend));
	(void)strcpy(sandbox.id, ID_A);
	REFUSED(EPROTO, api_ask(&sandbox, sizeof(sandbox)));
	(void)memset(image.ref, 'a', sizeof(image.ref));
	REFUSED(EPROTO, api_ask(&image, sizeof(image)));
	(void)strcpy(image.ref, "x");
	(void)memset(image.platform, 'a', sizeof(image.platform));
	REFUSED(EPROTO, api_ask(&image, sizeof(image)));
	image.platform[0] = '\0';
	image.flags = 1U << 7;
	REFUSED(EPROTO, api_ask(&image, sizeof(image)));
	image.flags = 0;
	image.verb = WIRE_IMAGE_MAX;
	REFUSED(EPROTO, api_ask(&image, sizeof(image)));

	put_create(&msg, "native", ID_A, &spec);
	c = (void *)msg.data;
	c->flags = 1U << 5;
	REFUSED(EPROTO, api_ask(msg.data, msg.len));
	c->flags = 0;
	c->soft_limits = 1U << 20;
	REFUSED(EPROTO, api_ask(msg.data, msg.len));
	c->soft_limits = 0;
	c->n_env = UINT32_MAX;
	REFUSED(EPROTO, api_ask(msg.data, msg.len));
	c->n_env = 1;
	REFUSED(EPROTO, api_ask(msg.data, msg.len));
	c->n_env = 0;
	c->n_mounts = WIRE_MOUNTS_MAX + 1;
	REFUSED(EPROTO, api_ask(msg.data, msg.len));
	c->n_mounts = 0;
	c->strings_size = UINT32_MAX;
	REFUSED(EPROTO, api_ask(msg.data, msg.len));
	c->strings_size = (uint32_t)(msg.len - sizeof(*c));
	msg.data[msg.len - 1] = 'x';
	REFUSED(EPROTO, api_ask(msg.data, msg.len));
	msg.data[msg.len - 1] = '\0';
	c->network = 77;
	REFUSED(EINVAL, api_ask(msg.data, msg.len));
	c->network = 0;
	GRANTED(api_ask(msg.data, msg.len)); /* unchanged, it is accepted */
	GRANTED(api_sandbox(WIRE_DESTROY, "native", ID_A));
	buf_done(&msg);
	warden_end();
}

TEST(malformed_requests_about_volumes_are_refused)
{
	static struct warden_proto_volume m = { .h = { .type = WIRE_VOLUME },
						.id = ID_A,
						.verb = WIRE_VOLUME_READ };

	warden_begin();
	m.verb = WIRE_VOLUME_VERB_MAX;
	REFUSED(EPROTO, api_ask(&m, sizeof(m)));
	m.verb = WIRE_VOLUME_COPY;
	(void)strcpy(m.from, "../../../etc");
	REFUSED(EPROTO, api_ask(&m, sizeof(m)));
	m.verb = WIRE_VOLUME_READ;
	(void)strcpy(m.from, "");
	(void)strcpy(m.name, "../x");
	REFUSED(EPROTO, api_ask(&m, sizeof(m)));
	(void)memset(m.name, 'a', sizeof(m.name));
	REFUSED(EPROTO, api_ask(&m, sizeof(m)));
	(void)strcpy(m.name, "");
	(void)memset(m.path, 'a', sizeof(m.path));
	REFUSED(EPROTO, api_ask(&m, sizeof(m)));
	(void)strcpy(m.path, "/");
	m.flags = 1U << 9;
	REFUSED(EPROTO, api_ask(&m, sizeof(m)));
	m.flags = 0;
	m.depth = WIRE_VOLUME_DEPTH_MAX + 1;
	REFUSED(EPROTO, api_ask(&m, sizeof(m)));
	m.depth = 0;
	(void)strcpy(m.id, "../../../etc");
	REFUSED(EPROTO, api_ask(&m, sizeof(m)));
	(void)strcpy(m.id, ID_A);
	/* It is well-formed, but the configuration has no directory for volumes. */
	REFUSED(EOPNOTSUPP, api_ask(&m, sizeof(m)));
	warden_end();
}

/* ------------------------------------------------------------------- names of images */

static const char *const options[] = {
	"-v=/:/host", "--privileged", "-",        "--",    "-v",
	"--mount=x",  "../../etc",    "/etc",     "a b",   "a\nb",
	"$(id)",      "a;id",         "UPPER",    "a,b",   "a@sha256:1",
	"-v=/:/h:ro", "x:-v",         "x:.",      "-x/y",  "{id}",
	".x/y",       "[::1:5000/x",  "a//b",     "a:b:c", "\xff",
	"host ",      "--rm=true:rw", "-h.com/x", "x/-y",  "dir",
};

TEST(an_image_name_is_never_treated_as_an_option)
{
	static const char *const places[] = { "native", "toy" };
	struct warren_spec spec = modest();
	struct warden_proto_image image = { .h = { .type = WIRE_IMAGE } };

	spec.soft_limits = WARREN_LIMIT_MEMORY | WARREN_LIMIT_CPU | WARREN_LIMIT_PIDS |
			   WARREN_LIMIT_DISK | WARREN_LIMIT_NOFILE;
	warden_begin();
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		bool named = strcmp(options[i], "dir") ==
			     0; /* a valid name of a missing image */

		spec.image = options[i];
		if (!named)
			for (size_t k = 0; k < ARRAY_SIZE(places); k++)
				REFUSED(EINVAL, create(places[k], ID_A, &spec));
		(void)snprintf(image.ref, sizeof(image.ref), "%s", options[i]);
		for (uint32_t verb = 0; !named && verb < WIRE_IMAGE_MAX; verb++) {
			image.verb = verb;
			REFUSED(EINVAL, api_ask(&image, sizeof(image)));
		}
	}
	STREQ(toy_calls(), ""); /* the tool was never called */
	spec.image = "dir:/";
	REFUSED(EPERM, create("native", ID_A, &spec));
	REFUSED(EPERM, create("toy", ID_A, &spec));
	/* A valid name reaches the tool, as one word. */
	spec.image = "elsewhere.example.com/some/thing:1.2"; /* not listed */
	REFUSED(EPERM, create("toy", ID_A, &spec));
	OK(!strstr(toy_calls(), "create"));
	spec.image = "reg.example.com:5000/some/thing:1.2";
	GRANTED(create("toy", ID_A, &spec));
	OK(strstr(toy_calls(), "create reg.example.com:5000/some/thing:1.2 " ID_A "\n"));
	GRANTED(api_sandbox(WIRE_DESTROY, "toy", ID_A));
	warden_end();
}

TEST(a_platform_name_is_never_treated_as_an_option)
{
	static const char *const bad[] = { "--force", "-x", "linux arm", "linux;id",
					   "A" };
	struct warden_proto_image image = { .h = { .type = WIRE_IMAGE }, .ref = "x" };

	policy.image_program = "/bin/true";
	warden_begin();
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		(void)strcpy(image.platform, bad[i]);
		REFUSED(EINVAL, api_ask(&image, sizeof(image)));
	}
	(void)strcpy(image.platform, "linux/arm64/v8");
	GRANTED(api_ask(&image, sizeof(image)));
	warden_end();
}

/* Other texts of a spec are refused too if they could mislead a tool, or lead to another
 * path. */
TEST(text_in_a_spec_is_never_treated_as_an_option)
{
	static const char *const wicked[] = {
		"-u", "--user=0", "a b", "a/b", ":", "a:b:c"
	};
	struct warren_spec spec = modest();
	const char *env[] = { "=x", NULL };

	warden_begin();
	for (size_t i = 0; i < ARRAY_SIZE(wicked); i++) {
		spec = modest();
		spec.user = wicked[i];
		REFUSED(EINVAL, create("toy", ID_A, &spec));
		spec = modest();
		spec.hostname = wicked[i];
		REFUSED(EINVAL, create("toy", ID_A, &spec));
		spec = modest();
		spec.workdir = wicked[i];
		REFUSED(EINVAL, create("toy", ID_A, &spec));
	}
	spec = modest();
	spec.workdir = "/a/../b";
	REFUSED(EINVAL, create("native", ID_A, &spec));
	spec = modest();
	spec.env = env;
	REFUSED(EINVAL, create("native", ID_A, &spec));
	STREQ(toy_calls(), "");
	is_well();
	warden_end();
}

/* --------------------------------------------------------------------------- limits */

static int update(const char *id, uint64_t memory, uint64_t cpu, uint64_t pids)
{
	struct warden_proto_update u = {
		.h = { .type = WIRE_UPDATE, .backend = "native" },
		.limits = { [SPEC_MEMORY] = memory, [SPEC_CPU] = cpu, [SPEC_PIDS] = pids }
	};

	(void)strcpy(u.id, id);
	return api_ask(&u, sizeof(u));
}

TEST(the_warden_enforces_the_configured_maxima)
{
	struct warren_spec spec = modest();
	const struct {
		size_t at;
		uint64_t max;
	} limits[] = {
		{ offsetof(struct warren_spec, memory), MAX_MEMORY },
		{ offsetof(struct warren_spec, cpu_millis), 2000 },
		{ offsetof(struct warren_spec, pids), MAX_PIDS },
		{ offsetof(struct warren_spec, disk), MAX_MEMORY },
		{ offsetof(struct warren_spec, nofile), 4096 },
	};

	warden_begin();
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		const uint64_t tries[] = { limits[i].max + 1, 4000000, UINT64_MAX };

		for (size_t k = 0; k < ARRAY_SIZE(tries); k++) {
			spec = modest();
			*(uint64_t *)(void *)((char *)&spec + limits[i].at) =
				tries[k] > limits[i].max ? tries[k] : UINT64_MAX;
			REFUSED(EPERM, create("native", ID_A, &spec));
			REFUSED(EPERM, create("toy", ID_A, &spec));
		}
		/* For some backends, no limit means unlimited. */
		spec = modest();
		*(uint64_t *)(void *)((char *)&spec + limits[i].at) = 0;
		REFUSED(EINVAL, create("native", ID_A, &spec));
		REFUSED(EINVAL, create("toy", ID_A, &spec));
	}
	spec = modest();
	spec.memory = MAX_MEMORY;
	spec.disk = MAX_MEMORY / 4;
	spec.pids = MAX_PIDS;
	GRANTED(create("native", ID_A, &spec));
	REFUSED(EPERM, update(ID_A, MAX_MEMORY + 1, 0, 0));
	REFUSED(EPERM, update(ID_A, UINT64_MAX, 0, 0));
	REFUSED(EPERM, update(ID_A, 0, 2001, 0));
	REFUSED(EPERM, update(ID_A, 0, WARREN_UNLIMITED, 0));
	REFUSED(EPERM, update(ID_A, 0, 0, MAX_PIDS + 1));
	GRANTED(update(ID_A, MAX_MEMORY / 2, 2000, MAX_PIDS));
	GRANTED(api_sandbox(WIRE_DESTROY, "native", ID_A));
	warden_end();
}

TEST(a_memory_limit_above_the_machines_is_refused)
{
	struct warren_spec spec = modest();

	without_max = true;
	warden_begin();
	spec.memory = 1ULL << 60;
	REFUSED(EINVAL, create("native", ID_A, &spec));
	spec.memory = UINT64_MAX;
	REFUSED(EINVAL, create("native", ID_A, &spec));
	/* An update cannot exceed the maxima either. */
	spec = modest();
	GRANTED(create("native", ID_A, &spec));
	REFUSED(EINVAL, update(ID_A, 1ULL << 60, 0, 0));
	GRANTED(update(ID_A, spec.memory + (1U << 20), 0, 0));
	is_well();
	warden_end();
}

TEST(a_weak_backend_is_refused_if_a_tier_is_required)
{
	struct warren_spec spec = modest();

	policy.min_tier = TIER_NAMESPACE;
	warden_begin();
	REFUSED(EPERM, create("toy", ID_A, &spec));
	STREQ(toy_calls(), "");
	is_well();
	warden_end();
}

TEST(the_warden_enforces_the_maximum_number_of_sandboxes)
{
	static const char *const ids[] = { "ddddddddddd1", "ddddddddddd2",
					   "ddddddddddd3" };
	struct warren_spec spec = modest();

	policy.max_sandboxes = 3;
	warden_begin();
	spec.pids = 0;
	for (int i = 0; i < 10; i++) /* failed creates do not count */
		REFUSED(EINVAL, create("native", ID_A, &spec));
	spec = modest();
	spec.image = "no/such:image";
	for (int i = 0; i < 10; i++)
		REFUSED(ENOENT, create("native", ID_A, &spec));
	spec = modest();
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		GRANTED(create("native", ids[i], &spec));
	REFUSED(EDQUOT, create("native", ID_A, &spec));
	REFUSED(EDQUOT, create("toy", ID_A, &spec));
	/* Destroying one twice frees only one place. */
	for (int i = 0; i < 5; i++)
		GRANTED(api_sandbox(WIRE_DESTROY, "native", ids[0]));
	GRANTED(create("native", ID_A, &spec));
	REFUSED(EDQUOT, create("native", ID_B, &spec));
	GRANTED(api_sandbox(WIRE_DESTROY, "native", ID_A));
	for (size_t i = 1; i < ARRAY_SIZE(ids); i++)
		GRANTED(api_sandbox(WIRE_DESTROY, "native", ids[i]));
	warden_end();
}

/* ------------------------------------------------------------------------------ ids */

static struct warren_spec toy_spec(void)
{
	struct warren_spec spec = modest();

	spec.image = "x:1";
	spec.soft_limits = WARREN_LIMIT_MEMORY | WARREN_LIMIT_CPU | WARREN_LIMIT_PIDS |
			   WARREN_LIMIT_DISK | WARREN_LIMIT_NOFILE;
	return spec;
}

TEST(a_list_continues_after_a_given_id)
{
	struct warden_proto_list m = { .h = { .type = WIRE_LIST, .backend = "toy" } };
	const struct warden_proto_reply *reply = (const void *)api.data;
	struct warren_spec toy = toy_spec();

	warden_begin();
	GRANTED(create("toy", ID_B, &toy));
	GRANTED(create("toy", ID_A, &toy));
	GRANTED(api_ask(&m, sizeof(m)));
	EQ(api.size, 2 * (ID_LEN + 1));
	OK(strcmp(reply->data, reply->data + ID_LEN + 1) < 0);
	/* After the first id comes the second, and then none. */
	(void)memcpy(m.after, reply->data, ID_LEN + 1);
	GRANTED(api_ask(&m, sizeof(m)));
	EQ(api.size, ID_LEN + 1);
	OK(strcmp(reply->data, m.after) > 0);
	(void)memcpy(m.after, reply->data, ID_LEN + 1);
	GRANTED(api_ask(&m, sizeof(m)));
	EQ(api.size, 0);
	(void)memset(m.after, 'z', sizeof(m.after));
	REFUSED(EPROTO, api_ask(&m, sizeof(m)));
	GRANTED(api_sandbox(WIRE_DESTROY, "toy", ID_A));
	GRANTED(api_sandbox(WIRE_DESTROY, "toy", ID_B));
	warden_end();
}

TEST(an_id_in_use_is_refused_on_every_backend)
{
	static const char *const all[] = { "native", "toy", "toy2" };
	struct warren_spec spec = modest(), toy = toy_spec();

	warden_begin();
	for (size_t owner = 0; owner < ARRAY_SIZE(all); owner++) {
		GRANTED(create(all[owner], ID_A, owner ? &toy : &spec));
		OK(lives(all[owner], ID_A));
		for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
			REFUSED(EEXIST, create(all[i], ID_A, i ? &toy : &spec));
			OK(lives(all[owner], ID_A));
			EQ(count_listed(all[owner]), 1);
			if (i == owner)
				continue;
			/* The sandbox does not exist on another backend. */
			OK(api_sandbox(WIRE_STATS, all[i], ID_A) < 0);
			OK(api_sandbox(WIRE_PAUSE, all[i], ID_A) < 0);
			OK(!lives(all[i], ID_A));
			(void)api_sandbox(WIRE_DESTROY, all[i], ID_A);
			OK(lives(all[owner], ID_A));
		}
		GRANTED(api_sandbox(WIRE_DESTROY, all[owner], ID_A));
		EQ(count_listed(all[owner]), 0);
	}
	/* The tool was called to destroy only what it had created. */
	EQ(strstr(toy_calls(), "destroy " ID_A "\n") != NULL, true);
	is_well();
	warden_end();
}

/* Several requests run at the same time: a failed one must not destroy the sandbox of
 * another. */
TEST(concurrent_creates_with_one_id_create_one_sandbox)
{
	enum {
		TIMES = 48
	};
	struct warren_spec spec = modest(), toy = toy_spec();
	struct buf native_msg, toy_msg;
	size_t made = 0;

	warden_begin();
	put_create(&native_msg, "native", ID_A, &spec);
	put_create(&toy_msg, "toy", ID_A, &toy);
	for (int round = 0; round < 8; round++) {
		const char *winner;

		made = 0;
		for (int i = 0; i < TIMES; i++) {
			struct buf *m = i % 8 == 7 ? &toy_msg : &native_msg;

			((struct warden_proto_header *)(void *)m->data)->seq =
				++api.seq << 1 | (m == &toy_msg);
			api_say(m->data, m->len, NULL, 0);
		}
		winner = NULL;
		for (int i = 0; i < TIMES; i++) {
			api_hear();
			if (api.err.code == 0) {
				made++;
				winner = api.of & 1 ? "toy" : "native";
			} else {
				OK(api.err.code == EEXIST || api.err.code == EBUSY);
			}
		}
		EQ(made, 1);
		OK(lives(winner, ID_A));
		GRANTED(api_sandbox(WIRE_DESTROY, winner, ID_A));
		EQ(count_listed("native") + count_listed("toy"), 0);
	}
	buf_done(&native_msg);
	buf_done(&toy_msg);
	is_well();
	warden_end();
}

/* The copy that is restored must not be removed before that. */
TEST(an_undo_and_the_removal_of_its_copy_are_carried_out_in_order)
{
	struct warren_spec spec = modest();

	warden_begin();
	GRANTED(create("native", ID_A, &spec));
	for (int i = 0; i < 20; i++) {
		struct warden_proto_sandbox m = {
			.h = { .type = WIRE_UNDO, .backend = "native" }, .id = ID_A
		};

		GRANTED(api_sandbox(WIRE_UNDO_KEEP, "native", ID_A));
		m.h.seq = ++api.seq;
		api_say(&m, sizeof(m), NULL, 0);
		m.h.type = WIRE_UNDO_FORGET;
		m.h.seq = ++api.seq;
		api_say(&m, sizeof(m), NULL, 0);
		for (int k = 0; k < 2; k++) {
			api_hear();
			EQ(api.err.code, 0);
		}
	}
	REFUSED(ENOENT, api_sandbox(WIRE_UNDO, "native", ID_A));
	GRANTED(api_sandbox(WIRE_DESTROY, "native", ID_A));
	warden_end();
}

TEST(concurrent_changes_of_one_sandbox_leave_it_intact)
{
	enum {
		TIMES = 200
	};
	struct warren_spec spec = modest();
	struct warden_proto_update u = {
		.h = { .type = WIRE_UPDATE, .backend = "native" }, .id = ID_A
	};
	AUTO_FREE char *sandboxes = sandbox_path("run/boxes"),
		       *ids = sandbox_path("run/ids");

	warden_begin();
	GRANTED(create("native", ID_A, &spec));
	for (int i = 0; i < TIMES; i++) {
		u.limits[SPEC_MEMORY] = (64 + (uint64_t)i % 64) * MIB;
		u.h.type = i % 3 ? WIRE_UPDATE : WIRE_STATS;
		u.h.seq = ++api.seq;
		api_say(&u,
			u.h.type == WIRE_STATS ? sizeof(struct warden_proto_sandbox)
					       : sizeof(u),
			NULL, 0);
	}
	for (int i = 0; i < TIMES; i++) {
		api_hear();
		OK(api.err.code == 0 || api.err.code == EBUSY);
	}
	OK(lives("native", ID_A));
	/* A sandbox can be destroyed any number of times. */
	for (int i = 0; i < TIMES; i++) {
		struct warden_proto_sandbox m = { .h = { .type = WIRE_DESTROY,
							 .backend = "native",
							 .seq = ++api.seq },
						  .id = ID_A };

		api_say(&m, sizeof(m), NULL, 0);
	}
	for (int i = 0; i < TIMES; i++)
		api_hear();
	GRANTED(api_sandbox(WIRE_DESTROY, "native", ID_A));
	EQ(count_listed("native"), 0);
	warden_end();
	OK(rmdir(sandboxes) == 0 || errno == ENOENT); /* nothing is left in them */
	OK(rmdir(ids) == 0 || errno == ENOENT);
}

/* --------------------------------------------------------------- helper programs */

TEST(the_number_of_image_helper_programs_is_limited)
{
	enum {
		TIMES = 120
	};
	struct warden_proto_image m = { .h = { .type = WIRE_IMAGE },
					.verb = WIRE_IMAGE_PULL };
	int held[TIMES], tries;
	size_t n = 0, busy = 0;

	/* The program ends when its output is no longer read. */
	write_script("images", "#!/bin/sh\nwhile echo x; do sleep 0.05; done\n");
	policy.image_program = sandbox_path("images");
	warden_begin();
	(void)strcpy(m.ref, "some/thing:1");
	for (int i = 0; i < TIMES; i++) {
		if (api_ask(&m, sizeof(m)) == 0)
			held[n++] = TAKE_FD(api.fd);
		else
			busy += api.err.code == EAGAIN;
	}
	EQ(n, WARDEN_PULLS_MAX);
	EQ(n + busy, TIMES);
	/* Other requests are still accepted, up to a limit. */
	m.verb = WIRE_IMAGE_INSPECT;
	for (int i = 0; i < TIMES; i++)
		if (api_ask(&m, sizeof(m)) == 0)
			held[n++] = TAKE_FD(api.fd);
		else
			EQ(api.err.code, EAGAIN);
	EQ(n, WARDEN_IMAGES_MAX);
	while (n > 0)
		(void)close(held[--n]);
	for (tries = 0; tries < SANDBOX_TRIES && api_ask(&m, sizeof(m)) != 0; tries++)
		sandbox_nap();
	OK(tries < SANDBOX_TRIES); /* programs that have ended free their places */
	is_well();
	warden_end();
}

TEST(many_clients_can_request_features_at_the_same_time)
{
	enum {
		TIMES = 100
	};
	struct warden_proto_header m = { .type = WIRE_PROBE };

	warden_begin();
	for (int i = 0; i < TIMES; i++) {
		m.seq = ++api.seq;
		EQ(warden_proto_put_backend(&m, i % 2 ? "toy" : "native"), 0);
		api_say(&m, sizeof(m), NULL, 0);
	}
	for (int i = 0; i < TIMES; i++) {
		api_hear();
		EQ(api.err.code, 0);
		OK(api.size > 2 && reply_data()[0] == '[' &&
		   reply_data()[api.size - 1] == ']');
	}
	EQ(warden_proto_put_backend(&m, "nonesuch"), 0);
	REFUSED(ENODEV, api_ask(&m, sizeof(m)));
	warden_end();
}

/* -------------------------------------------------------------------------- streams */

/* Request `echo` with @out as its stdout. Return the result of the shim, 0 or -errno. */
static int spawn_to(int line, uint32_t exec, int out)
{
	static const char strings[] = "/\0echo\0word";
	_Alignas(struct proto_spawn) char
		room[sizeof(struct proto_spawn) + sizeof(strings)];
	struct proto_spawn *msg = (void *)room;
	struct {
		struct proto_reply r;
		char more[PROTO_WHY_MAX];
	} answer;

	*msg = (struct proto_spawn){ .h = { PROTO_VERSION, PROTO_SPAWN, exec },
				     .exec = exec,
				     .stdio = { PROTO_STDIO_NULL, 0, PROTO_STDIO_NULL },
				     .nofile = 256,
				     .argc = 2,
				     .strings_size = sizeof(strings) };
	(void)memcpy(msg->strings, strings, sizeof(strings));
	EQ(fd_send(line, msg, sizeof(room), &out, 1), 0);
	for (;;) {
		int fds[8];
		size_t n_fds = ARRAY_SIZE(fds);
		ssize_t n = fd_recv(line, &answer, sizeof(answer), fds, &n_fds, 0);

		OK(n >= (ssize_t)sizeof(struct proto_header));
		while (n_fds > 0)
			(void)close(fds[--n_fds]);
		if (answer.r.h.type == PROTO_REPLY && answer.r.h.seq == exec &&
		    answer.r.status != -EINPROGRESS)
			return answer.r.status;
	}
}

/* A shim is root, and the peer of a socket could see that. */
TEST(a_shim_accepts_only_pipes_files_and_eventfds_as_streams)
{
	struct warren_spec toy = toy_spec();
	int datagram[2], stream[2], ends[2], line;
	AUTO_FREE char *file = sandbox_path("file");
	int bad[8], good[2];
	char said[16] = "";
	uint32_t exec = 100;

	warden_begin();
	GRANTED(create("toy", ID_A, &toy));
	line = TAKE_FD(api.fd);
	EQ(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, datagram), 0);
	EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, stream), 0);
	EQ(pipe2(ends, O_CLOEXEC), 0);
	bad[0] = datagram[0];
	bad[1] = stream[0];
	bad[2] = open("/dev/null", O_WRONLY | O_CLOEXEC);
	bad[3] = open("/proc/self/comm", O_WRONLY | O_CLOEXEC);
	bad[4] = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bad[5] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bad[6] = open("/proc/sys/kernel/core_pattern", O_RDONLY | O_CLOEXEC);
	bad[7] = open(sandbox_dir, O_PATH | O_CLOEXEC);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		OK(bad[i] >= 0);
		EQ(spawn_to(line, exec++, bad[i]), -EPROTO);
	}
	/* Nothing was written to these descriptors. */
	EQ(recv(datagram[1], said, sizeof(said), MSG_DONTWAIT), -1);
	EQ(recv(stream[1], said, sizeof(said), MSG_DONTWAIT), -1);
	good[0] = ends[1];
	good[1] = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		EQ(spawn_to(line, exec++, good[i]), 0);
	EQ(read(ends[0], said, 5), 5);
	OK(memcmp(said, "word\n", 5) == 0);
	GRANTED(api_sandbox(WIRE_DESTROY, "toy", ID_A));
	warden_end();
}

TEST_MAIN()
