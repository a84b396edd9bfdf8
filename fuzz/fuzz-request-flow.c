/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-request-flow.c - the same requests are found in one piece and byte by byte, and
 * another parser finds the same number
 */
#include <http_parser.h>
#include <stdlib.h>
#include <string.h>

#include "network/request_flow.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz_seen {
	struct buf log;
	unsigned ends;
	bool whole; /* all bytes belong to requests that are complete */
	bool odd;   /* a method or an upgrade that the other parser reads differently */
};

static void fuzz_event(struct request_flow *f, enum flow_event event, struct fuzz_seen *s)
{
	char host[HOST_TEXT_SIZE];

	if (event == FLOW_HEAD) {
		host_text(&f->request.host, host);
		buf_printf(&s->log, "[%s %s:%u %s]", f->head.method, host,
			   f->request.port, f->request.path ? f->request.path : "?");
		s->odd |= f->head.upgrade || strspn(f->head.method, "ACDEGHNOPSTU") !=
						     strlen(f->head.method);
		if (f->request.port == 0 || (f->request.protocol == 0) != f->connect)
			abort();
	} else if (event == FLOW_BODY) {
		buf_add(&s->log, f->piece, f->piece_len);
	} else if (event == FLOW_END) {
		buf_puts(&s->log, ".");
		s->ends++;
	} else if (event == FLOW_REFUSED) {
		if (!f->why || f->status < 400)
			abort();
		buf_printf(&s->log, "<%d %s>", f->status, f->why);
	}
}

static void fuzz_run(const char *data, size_t size, size_t step, bool proxy,
		     struct fuzz_seen *s)
{
	static const struct host a = { .kind = HOST_NAME, .name = "a", .len = 1 };
	AUTO_REQUEST_FLOW struct request_flow f = REQUEST_FLOW_INIT;
	enum flow_event event = FLOW_MORE;
	size_t fed = 0;

	f.host = proxy ? NULL : &a;
	f.port = 80;
	while (event != FLOW_REFUSED && !f.connect &&
	       (fed < size || event != FLOW_MORE)) {
		size_t part = size - fed < step ? size - fed : step;
		size_t used = request_flow_feed(&f, data + fed, part, &event);

		if (used > part || (event == FLOW_MORE && used != part))
			abort();
		fed += used;
		fuzz_event(&f, event, s);
	}
	s->whole = event == FLOW_MORE && f.bytes.len == 0;
}

static int fuzz_count(http_parser *p)
{
	++*(unsigned *)p->data;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	http_parser_settings settings = { .on_message_complete = fuzz_count };
	AUTO_BUF struct buf text = BUF_INIT(1U << 20);
	struct fuzz_seen whole = { .log = BUF_INIT(1U << 20) };
	struct fuzz_seen bytes = { .log = BUF_INIT(1U << 20) };
	http_parser p = { 0 };
	unsigned other = 0;

	if (size < 1 || size > 20000)
		return 0;
	buf_add(&text, data + 1, size - 1);
	fuzz_run(text.data, text.len, SIZE_MAX, data[0] & 1, &whole);
	fuzz_run(text.data, text.len, 1, data[0] & 1, &bytes);
	if (whole.log.len != bytes.log.len ||
	    (whole.log.len && memcmp(whole.log.data, bytes.log.data, whole.log.len) != 0))
		abort();
	/* Check that a request for this parser is not two requests for another one. */
	http_parser_init(&p, HTTP_REQUEST);
	p.data = &other;
	(void)http_parser_execute(&p, &settings, text.data, text.len);
	if (whole.whole && !whole.odd && whole.ends != other &&
	    p.http_errno != HPE_INVALID_METHOD)
		abort();
	buf_done(&whole.log);
	buf_done(&bytes.log);
	return 0;
}
