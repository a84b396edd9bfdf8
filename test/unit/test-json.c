/* SPDX-License-Identifier: Apache-2.0 */
/* test-json.c - the output is valid JSON, whatever the strings contain */
#include "base/json.h"

#include "lib/tap.h"

#define REPLACED "\xef\xbf\xbd"

/* Return @text as a JSON string, as the writer writes it. */
static char *as_json(const char *text)
{
	struct buf out = BUF_INIT(1U << 20);
	struct json j = { .out = &out };

	json_str(&j, NULL, text);
	OK(!out.failed);
	return out.data;
}

TEST(an_object_is_written)
{
	AUTO_BUF struct buf out = BUF_INIT(4096);
	struct json j = { .out = &out };

	json_open(&j, NULL, '{');
	json_str(&j, "s", "v");
	json_str(&j, "none", NULL);
	json_int(&j, "i", INT64_MIN);
	json_u64(&j, "u", UINT64_MAX);
	json_bool(&j, "t", true);
	json_bool(&j, "f", false);
	json_nil(&j, "n");
	json_milli(&j, "m", 1234567);
	json_milli(&j, "small", 5);
	json_open(&j, "empty", '[');
	json_close(&j, ']');
	json_open(&j, "list", '[');
	json_int(&j, NULL, 1);
	json_str(&j, NULL, "two");
	json_open(&j, NULL, '{');
	json_close(&j, '}');
	json_close(&j, ']');
	json_bool(&j, "last", true);
	json_close(&j, '}');
	STREQ(out.data,
	      "{\"s\":\"v\",\"none\":null,\"i\":-9223372036854775808,"
	      "\"u\":18446744073709551615,\"t\":true,\"f\":false,\"n\":null,"
	      "\"m\":1234.567,\"small\":0.005,\"empty\":[],\"list\":[1,\"two\",{}],"
	      "\"last\":true}");
}

/* Strings have any number of characters, with escapes at any position. */
TEST(strings_of_every_length_are_escaped)
{
	static const struct {
		const char *text, *json;
	} parts[] = {
		{ "y", "y" },
		{ "\n", "\\n" },
		{ "\x01", "\\u0001" },
		{ "\xff", REPLACED },
		{ "\xc3\xa4", "\xc3\xa4" },
		{ "a run of plain text", "a run of plain text" },
	};

	for (size_t gap = 0; gap < 40; gap++) {
		AUTO_BUF struct buf text = BUF_INIT(1U << 16);
		AUTO_BUF struct buf want = BUF_INIT(1U << 17);

		buf_puts(&want, "\"");
		for (size_t i = 0; i < 600; i++) {
			size_t k = gap == 0 || i % gap == 0 ? i % ARRAY_SIZE(parts) : 0;
			AUTO_FREE char *said = NULL;

			buf_puts(&text, parts[k].text);
			buf_puts(&want, parts[k].json);
			said = as_json(text.data);
			OK(strncmp(said, want.data, want.len) == 0);
			STREQ(said + want.len, "\"");
		}
	}
}

TEST(special_characters_are_escaped)
{
	static const struct {
		const char *text, *json;
	} cases[] = {
		{ "", "\"\"" },
		{ "plain", "\"plain\"" },
		{ "\"", "\"\\\"\"" },
		{ "\\", "\"\\\\\"" },
		{ "/", "\"/\"" },
		{ "\b\f\n\r\t", "\"\\b\\f\\n\\r\\t\"" },
		{ "\x01\x1f", "\"\\u0001\\u001f\"" },
		{ "\x1b[31m", "\"\\u001b[31m\"" },
		{ "\x7f", "\"\\u007f\"" },
		{ "</script>", "\"</script>\"" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		STREQ(as_json(cases[i].text), cases[i].json);
}

TEST(utf8_is_written_unchanged)
{
	static const char *const good[] = {
		"\xc3\xa9", /* U+00E9 */
		"\xc2\xa0", /* U+00A0, the first one that is not a control character */
		"\xdf\xbf", /* the last */
		"\xe0\xa0\x80",     /* the first character of three bytes */
		"\xed\x9f\xbf",     /* the last character before the surrogates */
		"\xee\x80\x80",     /* after them */
		"\xef\xbf\xbf",     /* the last character of three bytes */
		"\xf0\x90\x80\x80", /* the first character of four bytes */
		"\xf4\x8f\xbf\xbf", /* U+10FFFF */
		"\xf0\x9f\x90\x87", /* a rabbit */
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		char want[16];

		(void)snprintf(want, sizeof(want), "\"%s\"", good[i]);
		STREQ(as_json(good[i]), want);
	}
}

/* Invalid UTF-8 is replaced, and what follows is kept. */
TEST(bytes_that_are_not_utf8_are_replaced)
{
	static const struct {
		const char *text, *json;
	} cases[] = {
		{ "\x80", "\"" REPLACED "\"" }, /* a continuation byte alone */
		{ "\xff", "\"" REPLACED "\"" },
		{ "a\xc3", "\"a" REPLACED "\"" }, /* truncated by the end */
		{ "\xc3(", "\"" REPLACED "(\"" }, /* truncated by a letter */
		{ "\xe2\x82", "\"" REPLACED REPLACED "\"" },
		{ "\xf0\x9f\x90", "\"" REPLACED REPLACED REPLACED "\"" },
		{ "\xc0\xaf", "\"" REPLACED REPLACED "\"" }, /* overlong '/' */
		{ "\xc1\xbf", "\"" REPLACED REPLACED "\"" },
		{ "\xe0\x80\xaf", "\"" REPLACED REPLACED REPLACED "\"" },
		{ "\xe0\x9f\xbf", "\"" REPLACED REPLACED REPLACED "\"" },
		{ "\xf0\x8f\xbf\xbf", "\"" REPLACED REPLACED REPLACED REPLACED "\"" },
		{ "\xed\xa0\x80",
		  "\"" REPLACED REPLACED REPLACED "\"" }, /* a surrogate */
		{ "\xed\xbf\xbf", "\"" REPLACED REPLACED REPLACED "\"" },
		{ "\xf4\x90\x80\x80", "\"" REPLACED REPLACED REPLACED REPLACED "\"" },
		{ "\xf5\x80\x80\x80", "\"" REPLACED REPLACED REPLACED REPLACED "\"" },
		{ "\xc3\"", "\"" REPLACED "\\\"\"" }, /* must not swallow a quote */
		{ "\xe2\x82\\", "\"" REPLACED REPLACED "\\\\\"" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		STREQ(as_json(cases[i].text), cases[i].json);
}

TEST(keys_are_escaped_as_well)
{
	AUTO_BUF struct buf out = BUF_INIT(4096);
	struct json j = { .out = &out };

	json_open(&j, NULL, '{');
	json_int(&j, "a\"b\xff\n", 1);
	json_close(&j, '}');
	STREQ(out.data, "{\"a\\\"b" REPLACED "\\n\":1}");
}

TEST(a_value_that_does_not_fit_marks_the_buffer_as_failed)
{
	AUTO_BUF struct buf out = BUF_INIT(16);
	struct json j = { .out = &out };

	json_open(&j, NULL, '{');
	for (int i = 0; i < 100; i++)
		json_str(&j, "key", "value");
	json_close(&j, '}');
	OK(out.failed);
	OK(out.len <= 16);
}

TEST(strings_with_a_length_are_written)
{
	AUTO_BUF struct buf out = BUF_INIT(4096);
	struct json j = { .out = &out };

	json_open(&j, NULL, '[');
	json_strn(&j, NULL, "a\0b\xe2\x82", 5);
	json_strn(&j, NULL, "cut here", 3);
	json_strn(&j, NULL, "", 0);
	json_raw(&j, NULL, "{\"as\":\"it is\"}", 14);
	json_close(&j, ']');
	STREQ(out.data,
	      "[\"a\\u0000b" REPLACED REPLACED "\",\"cut\",\"\",{\"as\":\"it is\"}]");
}

TEST(bytes_are_written_as_base64)
{
	static const char *const coded[] = {
		"", "AA==", "AAE=", "AAEC", "AAECAw==", "AAECAwQ=", "AAECAwQF",
	};

	for (size_t n = 0; n < ARRAY_SIZE(coded); n++) {
		AUTO_BUF struct buf out = BUF_INIT(4096);
		struct json j = { .out = &out };
		char want[16];

		json_base64(&j, NULL, "\0\1\2\3\4\5", n);
		(void)snprintf(want, sizeof(want), "\"%s\"", coded[n]);
		STREQ(out.data, want);
	}
}

TEST(base64_that_does_not_fit_fails)
{
	AUTO_BUF struct buf out = BUF_INIT(8);
	struct json j = { .out = &out };

	json_base64(&j, NULL, "0123456789", 10);
	OK(out.failed);
	OK(out.len <= 8);
}

TEST_MAIN()
