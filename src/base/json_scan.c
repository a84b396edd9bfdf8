/* SPDX-License-Identifier: Apache-2.0 */
/* json_scan.c - a state machine for JSON; each byte leads from one state to the next */
#include "base/json_scan.h"

#include <ctype.h>
#include <string.h>

enum scan_state {
	SCAN_BEGIN,    /* before the object */
	SCAN_FIRST,    /* after '{': a key, or '}' */
	SCAN_KEY,      /* after ',' in an object */
	SCAN_COLON,    /* after a key */
	SCAN_VALUE,    /* after ':', or after ',' in an array */
	SCAN_ELEMENT,  /* after '[': a value, or ']' */
	SCAN_AFTER,    /* after a value */
	SCAN_STRING,   /* in a string */
	SCAN_ESCAPE,   /* after '\' */
	SCAN_HEX,      /* after "\u" */
	SCAN_LITERAL,  /* in true, false or null */
	SCAN_MINUS,    /* after '-' */
	SCAN_ZERO,     /* after a leading 0 */
	SCAN_INTEGER,  /* in the digits before a point */
	SCAN_POINT,    /* after the point */
	SCAN_FRACTION, /* in the digits after it */
	SCAN_E,        /* after 'e' */
	SCAN_SIGN,     /* after the sign of the exponent */
	SCAN_EXPONENT, /* in the digits of the exponent */
	SCAN_END,      /* after the object */
	SCAN_BAD,
};

static bool scan_in_array(const struct json_scan *s)
{
	unsigned top = s->depth - 1U;

	return s->arrays[top / 64] >> (top % 64) & 1;
}

static enum scan_state scan_open(struct json_scan *s, bool array)
{
	uint64_t bit = 1ULL << (s->depth % 64);

	if (s->depth == JSON_SCAN_DEPTH)
		return SCAN_BAD;
	if (array)
		s->arrays[s->depth / 64] |= bit;
	else
		s->arrays[s->depth / 64] &= ~bit;
	s->depth++;
	return array ? SCAN_ELEMENT : SCAN_FIRST;
}

static enum scan_state scan_close(struct json_scan *s, bool array)
{
	if (scan_in_array(s) != array)
		return SCAN_BAD;
	s->depth--;
	return s->depth ? SCAN_AFTER : SCAN_END;
}

static enum scan_state scan_string(struct json_scan *s, bool key)
{
	s->key = key;
	return SCAN_STRING;
}

static enum scan_state scan_literal(struct json_scan *s, const char *rest)
{
	s->literal = rest;
	s->left = (uint8_t)strlen(rest);
	return SCAN_LITERAL;
}

static enum scan_state scan_value(struct json_scan *s, char c)
{
	switch (c) {
	case '{':
	case '[':
		return scan_open(s, c == '[');
	case '"':
		return scan_string(s, false);
	case 't':
		return scan_literal(s, "rue");
	case 'f':
		return scan_literal(s, "alse");
	case 'n':
		return scan_literal(s, "ull");
	case '-':
		return SCAN_MINUS;
	case '0':
		return SCAN_ZERO;
	default:
		return c >= '1' && c <= '9' ? SCAN_INTEGER : SCAN_BAD;
	}
}

static enum scan_state scan_after(struct json_scan *s, char c)
{
	if (c == ',')
		return scan_in_array(s) ? SCAN_VALUE : SCAN_KEY;
	return c == ']' || c == '}' ? scan_close(s, c == ']') : SCAN_BAD;
}

static enum scan_state scan_escape(struct json_scan *s, char c)
{
	s->left = 4;
	if (c == 'u')
		return SCAN_HEX;
	return c && strchr("\"\\/bfnrt", c) ? SCAN_STRING : SCAN_BAD;
}

/* In a number: which states a byte can lead to. */
static enum scan_state scan_number(struct json_scan *s, char c)
{
	enum scan_state at = s->state;
	bool digit = isdigit((unsigned char)c);

	if (at == SCAN_MINUS)
		return c == '0' ? SCAN_ZERO : digit ? SCAN_INTEGER : SCAN_BAD;
	if (at == SCAN_POINT)
		return digit ? SCAN_FRACTION : SCAN_BAD;
	if (at == SCAN_E && (c == '+' || c == '-'))
		return SCAN_SIGN;
	if (at == SCAN_E || at == SCAN_SIGN)
		return digit ? SCAN_EXPONENT : SCAN_BAD;
	if (digit)
		return at == SCAN_ZERO ? SCAN_BAD : at;
	if (c == '.' && (at == SCAN_ZERO || at == SCAN_INTEGER))
		return SCAN_POINT;
	if ((c == 'e' || c == 'E') && at != SCAN_EXPONENT)
		return SCAN_E;
	s->state = SCAN_AFTER; /* this byte follows the number */
	return c == ' ' || c == '\t' ? SCAN_AFTER : scan_after(s, c);
}

static enum scan_state scan_token(struct json_scan *s, char c)
{
	switch (s->state) {
	case SCAN_BEGIN:
		return c == '{' ? scan_open(s, false) : SCAN_BAD;
	case SCAN_FIRST:
		if (c == '}')
			return scan_close(s, false);
		return c == '"' ? scan_string(s, true) : SCAN_BAD;
	case SCAN_KEY:
		return c == '"' ? scan_string(s, true) : SCAN_BAD;
	case SCAN_COLON:
		return c == ':' ? SCAN_VALUE : SCAN_BAD;
	case SCAN_ELEMENT:
		return c == ']' ? scan_close(s, true) : scan_value(s, c);
	case SCAN_VALUE:
		return scan_value(s, c);
	case SCAN_AFTER:
		return scan_after(s, c);
	default:
		return SCAN_BAD;
	}
}

static enum scan_state scan_next(struct json_scan *s, char c)
{
	switch (s->state) {
	case SCAN_STRING:
		if (c == '"')
			return s->key ? SCAN_COLON : SCAN_AFTER;
		if (c == '\\')
			return SCAN_ESCAPE;
		return c >= 0x20 && c < 0x7f ? SCAN_STRING : SCAN_BAD;
	case SCAN_ESCAPE:
		return scan_escape(s, c);
	case SCAN_HEX:
		if (!isxdigit((unsigned char)c))
			return SCAN_BAD;
		return --s->left ? SCAN_HEX : SCAN_STRING;
	case SCAN_LITERAL:
		if (c != *s->literal++)
			return SCAN_BAD;
		return --s->left ? SCAN_LITERAL : SCAN_AFTER;
	case SCAN_MINUS ... SCAN_EXPONENT:
		return scan_number(s, c);
	default:
		return c == ' ' || c == '\t' ? s->state : scan_token(s, c);
	}
}

/* Most bytes are within strings. Return the number of bytes that change nothing. */
static size_t scan_plain(const char *data, size_t n)
{
	size_t i = 0;

	while (i < n && data[i] >= 0x20 && data[i] < 0x7f && data[i] != '"' &&
	       data[i] != '\\')
		i++;
	return i;
}

bool json_scan_add(struct json_scan *s, const char *data, size_t n)
{
	for (size_t i = 0; i < n && s->state != SCAN_BAD; i++) {
		if (s->state == SCAN_STRING)
			i += scan_plain(data + i, n - i);
		if (i < n)
			s->state = (uint8_t)scan_next(s, data[i]);
	}
	return s->state != SCAN_BAD;
}

bool json_scan_ends(const struct json_scan *s)
{
	return s->state == SCAN_END;
}
