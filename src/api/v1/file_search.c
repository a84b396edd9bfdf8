/* SPDX-License-Identifier: Apache-2.0 */
/* file_search.c - handler: search a tree by name and by content */
#include <string.h>
#include <sys/stat.h>

#include "api/v1/file.h"
#include "service/files/search.h"

#define TEXT_MAX 1024U

struct seeking {
	struct file_call fc;
	struct search *search;
	struct search_options o;
	struct buf out;
	struct json json;
};

static void seeking_done(struct file_call *fc)
{
	struct seeking *s = (struct seeking *)fc;

	s->search = search_free(s->search);
	s->o.name = pattern_free(s->o.name);
	s->o.content = pattern_free(s->o.content);
	buf_done(&s->out);
}

static void on_match(void *ctx, const struct search_match *m)
{
	struct seeking *s = ctx;
	struct json *j = &s->json;

	json_open(j, NULL, '{');
	json_str(j, "path", m->path);
	json_str(j, "type", file_type_name(m->mode));
	if (m->line > 0) {
		json_u64(j, "line", m->line);
		json_u64(j, "column", m->column);
		json_strn(j, "text", m->text, m->size < TEXT_MAX ? m->size : TEXT_MAX);
	}
	json_close(j, '}');
}

static void file_search_on_end(void *ctx, bool truncated, bool timed_out,
			       const struct warren_error *err)
{
	struct seeking *s = ctx;

	if (err) {
		file_fail(s->fc.call, err);
		return;
	}
	json_close(&s->json, ']');
	json_bool(&s->json, "truncated", truncated);
	json_bool(&s->json, "timed_out", timed_out);
	json_close(&s->json, '}');
	call_json(s->fc.call, 200, &s->out);
}

static void file_search_begun(struct file_call *fc)
{
	struct seeking *s = (struct seeking *)fc;
	struct search_options o = s->o;

	s->o.name = s->o.content = NULL;
	o.path = fc->path;
	json_open(&s->json, NULL, '{');
	json_open(&s->json, "matches", '[');
	search_start(fc->files, &o, &s->search);
}

static int read_patterns(struct seeking *s, const struct body *b,
			 struct warren_error *err)
{
	const char *name = body_text(b, "name"), *content = body_text(b, "content");
	bool any_case = body_bool(b, "ignore_case");
	int r = 0;

	if (name)
		r = pattern_new_glob(name, any_case, &s->o.name, err);
	s->o.whole_path = name && strchr(name, '/');
	if (r == 0 && content)
		r = body_bool(b, "regex")
			    ? pattern_new_regex(content, any_case, &s->o.content, err)
			    : pattern_new_text(content, any_case, &s->o.content, err);
	return r;
}

void v1_search_files(struct call *c)
{
	struct seeking *s = calloc(1, sizeof(*s));
	struct warren_error err = WARREN_ERROR_INIT;
	const struct body *b = &c->body;

	if (s) {
		s->fc.begun = file_search_begun;
		s->fc.done = seeking_done;
		s->out = (struct buf)BUF_INIT(64U << 20);
		s->json = (struct json){ .out = &s->out };
		s->o.depth = (unsigned)body_int(b, "depth");
		s->o.hidden = body_bool(b, "hidden");
		s->o.max_matches = (uint64_t)body_int(b, "max_matches");
		s->o.max_file_size = body_size(b, "max_file_size");
		s->o.timeout_ms = (uint64_t)body_int(b, "timeout_ms");
		s->o.match = on_match;
		s->o.end = file_search_on_end;
		s->o.ctx = s;
		if (body_has(b, "type"))
			s->o.type = file_type_mode((size_t)body_word(b, "type"));
		if (read_patterns(s, b, &err) < 0) {
			seeking_done(&s->fc);
			free(s);
			call_fail(c, &err);
			return;
		}
	}
	file_begin(c, s ? &s->fc : NULL, body_text(b, "path"), body_text(b, "user"));
}
