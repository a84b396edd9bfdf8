/* SPDX-License-Identifier: Apache-2.0 */
/* test-json-scan.c - the check of JSON in pieces agrees with a parser */
#include "base/json_scan.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "lib/tap.h"

/* @step: bytes in a piece. */
static bool scan(const char *text, size_t n, size_t step)
{
	struct json_scan s = { 0 };

	for (size_t at = 0; at < n; at += step)
		(void)json_scan_add(&s, text + at, n - at < step ? n - at : step);
	return json_scan_ends(&s);
}

static const char *const valid[] = {
	"{}",
	"{ }",
	"{\"type\":\"stdout\",\"text\":\"a\\n\\u00e9\\\"\\\\\"}",
	"{\"a\":[],\"b\":{},\"c\":[[],[{}]]}",
	"{\"n\":[0,-0,1,-12,0.5,1.25,1e5,1E+5,1e-5,0e0,123456789012]}",
	"{\"l\":[true,false,null]}",
	"{ \"a\" : [ 1 , 2 ] , \"b\" : null }",
	"{\"a\":1}",
	"{\"a\":{\"b\":[1,{\"c\":2}]}}",
};

static const char *const invalid[] = {
	"",
	"[]",
	"1",
	"\"a\"",
	"null",
	"{",
	"}",
	"{}}",
	"{}{}",
	"{} {}",
	"{]",
	"{\"a\":[}",
	"{\"a\":[1}",
	"{\"a\":1]",
	"{\"a\"}",
	"{\"a\":}",
	"{\"a\":1,}",
	"{,}",
	"{\"a\":[1,]}",
	"{\"a\":[,1]}",
	"{\"a\" 1}",
	"{a:1}",
	"{'a':1}",
	"{\"a\":tru}",
	"{\"a\":nulls}",
	"{\"a\":NaN}",
	"{\"a\":Infinity}",
	"{\"a\":01}",
	"{\"a\":1.}",
	"{\"a\":.5}",
	"{\"a\":-}",
	"{\"a\":+1}",
	"{\"a\":1e}",
	"{\"a\":1e+}",
	"{\"a\":1 2}",
	"{\"a\":\"\t\"}",
	"{\"a\":\"\x7f\"}",
	"{\"a\":\"\xc3\xa9\"}",
	"{\"a\":\"\\x\"}",
	"{\"a\":\"\\u12g4\"}",
	"{\"a\":\"\\u12\"}",
	"{\"a\":\"b}",
	"\xef\xbb\xbf{}",
};

TEST(objects_are_accepted_in_pieces_of_any_size)
{
	for (size_t i = 0; i < sizeof(valid) / sizeof(valid[0]); i++)
		for (size_t step = 1; step < 40; step++)
			OK(scan(valid[i], strlen(valid[i]), step));
}

TEST(anything_else_is_refused)
{
	for (size_t i = 0; i < sizeof(invalid) / sizeof(invalid[0]); i++)
		for (size_t step = 1; step < 40; step++)
			OK(!scan(invalid[i], strlen(invalid[i]), step));
	OK(!scan("{\"a\":\"\0\"}", 9, 9)); /* a NUL */
}

TEST(the_depth_is_limited)
{
	char text[2 * JSON_SCAN_DEPTH + 16];

	for (int depth = JSON_SCAN_DEPTH - 1; depth <= JSON_SCAN_DEPTH; depth++) {
		size_t n = 5;

		(void)memcpy(text, "{\"a\":", n);
		for (int i = 0; i < depth; i++)
			text[n++] = '[';
		for (int i = 0; i < depth; i++)
			text[n++] = ']';
		text[n++] = '}';
		EQ(scan(text, n, 7), depth < JSON_SCAN_DEPTH);
	}
}

/* Change a byte of a valid text: whatever passes must be JSON for the parser, too. */
TEST(what_passes_can_be_parsed)
{
	static const char bytes[] = "{}[]\",:\\0123.eE+-tfnu aA/";
	const char *from = "{\"a\":[1,-2.5e3,true,null,\"x\\u0041\"],\"b\":{\"c\":0}}";
	size_t n = strlen(from), passed = 0;
	char text[128];

	for (size_t at = 0; at < n; at++) {
		for (size_t k = 0; k < sizeof(bytes) - 1; k++) {
			json_t *json;
			bool is;

			(void)strcpy(text, from);
			text[at] = bytes[k];
			json = json_loads(text, JSON_ALLOW_NUL, NULL);
			is = json_is_object(json);
			json_decref(json);
			EQ(scan(text, n, 5), is);
			passed += is;
		}
	}
	OK(passed > n);
}

TEST_MAIN()
