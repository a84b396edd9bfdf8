/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test-spec.c - every encoding of a spec has exactly the limits and fields of the table
 */
#include "spec/spec.h"

#include <errno.h>
#include <string.h>

#include "api/body.h"
#include "api/v1/ops.h"
#include "base/buf.h"
#include "proto/warden_proto.h"

#include "lib/tap.h"

/* Return a different value for each limit. */
static uint64_t value_of(size_t id)
{
	return (id + 1) * 1000003;
}

static struct warren_spec full_spec(void)
{
	struct warren_spec spec = { .image = "image",
				    .hostname = "hostname",
				    .user = "user",
				    .workdir = "/workdir",
				    .read_only = true,
				    .no_pull = true };

	for (size_t i = 0; i < SPEC_LIMIT_MAX; i++)
		spec_limit_set(&spec, i, value_of(i));
	return spec;
}

TEST(rows_name_the_fields_of_warren_h)
{
	struct warren_spec spec = full_spec();
	struct warren_limits live = { 0 };

	EQ(spec.memory, value_of(SPEC_MEMORY));
	EQ(spec.cpu_millis, value_of(SPEC_CPU));
	EQ(spec.pids, value_of(SPEC_PIDS));
	EQ(spec.disk, value_of(SPEC_DISK));
	EQ(spec.nofile, value_of(SPEC_NOFILE));
	STREQ(spec_limits[SPEC_CPU].name, "cpu_millis");
	STREQ(spec_limits[SPEC_CPU].word, "cpus");
	OK(!spec_live_any(&live));
	for (size_t i = 0; i < SPEC_LIVE_MAX; i++)
		spec_live_set(&live, i, value_of(i));
	OK(spec_live_any(&live));
	EQ(live.memory, value_of(SPEC_MEMORY));
	EQ(live.cpu_millis, value_of(SPEC_CPU));
	EQ(live.pids, value_of(SPEC_PIDS));
}

TEST(a_limit_is_enforced_unless_it_is_soft)
{
	struct warren_spec spec = { .pids = 7,
				    .disk = 8,
				    .soft_limits = WARREN_LIMIT_DISK };

	OK(spec_insists(&spec, SPEC_PIDS));
	OK(!spec_insists(&spec, SPEC_DISK));
	OK(!spec_insists(&spec, SPEC_MEMORY));
}

TEST(limits_unknown_to_a_backend_are_found)
{
	struct warren_spec spec = { .pids = 7, .nofile = 8 };

	EQ(spec_limit_beyond(&spec, SPEC_LIMIT_BITS, 0), SPEC_LIMIT_MAX);
	EQ(spec_limit_beyond(&spec, 0, 0), SPEC_PIDS);
	EQ(spec_limit_beyond(&spec, 0, SPEC_PIDS + 1), SPEC_NOFILE);
	EQ(spec_limit_beyond(&spec, WARREN_LIMIT_PIDS, 0), SPEC_NOFILE);
	spec.nofile = 0;
	EQ(spec_limit_beyond(&spec, WARREN_LIMIT_PIDS, 0), SPEC_LIMIT_MAX);
}

TEST(arguments_are_accepted_in_common_notations)
{
	char word[SPEC_WORD_SIZE];

	spec_limit_word(SPEC_CPU, 1500, word);
	STREQ(word, "1.500");
	spec_limit_word(SPEC_MEMORY, 1U << 20, word);
	STREQ(word, "1048576");
}

TEST(the_warden_gets_every_field)
{
	struct warren_spec spec = full_spec(), got;
	AUTO_BUF struct buf out = BUF_INIT(WIRE_MESSAGE_MAX);
	const char *env[WIRE_ENV_MAX + 1];
	struct warren_mount mounts[WIRE_MOUNTS_MAX];
	const struct warden_proto_create *msg;

	EQ(warden_proto_put_create(&out, "native", "k3f9x2m7qd1w", &spec), 0);
	EQ(warden_proto_check(out.data, out.len), 0);
	msg = (const struct warden_proto_create *)(const void *)out.data;
	EQ(msg->flags, 1 << 0 | 1 << 2);
	warden_proto_get_create(msg, &got, env, mounts);
	for (size_t i = 0; i < SPEC_LIMIT_MAX; i++)
		EQ(spec_limit_get(&got, i), value_of(i));
	STREQ(got.image, "image");
	STREQ(got.hostname, "hostname");
	STREQ(got.user, "user");
	STREQ(got.workdir, "/workdir");
	OK(got.read_only && got.no_pull && got.durable);
}

TEST(the_warden_refuses_bits_that_no_row_has)
{
	struct warren_spec spec = full_spec();
	AUTO_BUF struct buf out = BUF_INIT(WIRE_MESSAGE_MAX);
	struct warden_proto_create *msg;

	spec.soft_limits = SPEC_LIMIT_BITS;
	EQ(warden_proto_put_create(&out, "native", "k3f9x2m7qd1w", &spec), 0);
	EQ(warden_proto_check(out.data, out.len), 0);
	msg = (struct warden_proto_create *)(void *)out.data;
	msg->soft_limits |= SPEC_LIMIT_BITS + 1;
	EQ(warden_proto_check(out.data, out.len), -EPROTO);
	msg->soft_limits = 0;
	msg->flags |= 1U << 1;
	EQ(warden_proto_check(out.data, out.len), -EPROTO);
}

static const struct api_schema *api_field(const struct api_schema *s, const char *name)
{
	for (size_t i = 0; i < s->n_fields; i++)
		if (strcmp(s->fields[i].name, name) == 0)
			return s->fields[i].schema;
	return NULL;
}

/* Check that `limits` in the body of @op has exactly the first @n limits of the table. */
static void check_schema(enum v1_op op, size_t n)
{
	const struct api_schema *limits = api_field(v1_face.ops[op].schema, "limits");

	OK(limits);
	EQ(limits->n_fields, n);
	for (size_t i = 0; i < n; i++) {
		const struct spec_limit *l = &spec_limits[i];
		const struct api_schema *s = api_field(limits, l->name);

		OK(s);
		EQ(s->format == API_FORMAT_SIZE, l->unit == SPEC_BYTES);
		if (l->unit != SPEC_MILLIS) /* users give this value as a fraction */
			EQ(s->min, l->min);
		if (l->unit == SPEC_COUNT)
			EQ(s->max, l->max);
	}
}

TEST(the_api_accepts_the_limits_of_the_table)
{
	check_schema(V1_CREATE_SANDBOX, SPEC_LIMIT_MAX);
	check_schema(V1_UPDATE_SANDBOX, SPEC_LIVE_MAX);
	check_schema(V1_RUN_EXEC, SPEC_LIVE_MAX);
}

TEST(a_request_body_is_read_by_the_table)
{
	static const char text[] = "{\"limits\":{\"memory\":\"2m\",\"cpu_millis\":1500,"
				   "\"pids\":7,\"disk\":3145728,\"nofile\":64}}";
	static const uint64_t want[] = { 2U << 20, 1500, 7, 3U << 20, 64 };
	struct warren_limits live = { 0 };
	AUTO_BODY struct body body = { 0 };
	struct api_error error;
	struct body limits;

	EQ(body_read(&v1_face.ops[V1_CREATE_SANDBOX], text, strlen(text), &body, &error),
	   0);
	limits = body_object(&body, "limits");
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		EQ(body_limit(&limits, i), want[i]);
	body_live_limits(&limits, &live);
	EQ(live.memory, 2U << 20);
	EQ(live.cpu_millis, 1500);
	EQ(live.pids, 7);
}

TEST_MAIN()
