/* SPDX-License-Identifier: Apache-2.0 */
/* jsonc.c - blank what JSON does not have */
#include "setup/jsonc.h"

#include <string.h>

/* The index after the string that starts at @i. */
static size_t jsonc_string(const char *text, size_t n, size_t i)
{
	for (i++; i < n && text[i] != '"'; i++)
		if (text[i] == '\\')
			i++;
	return i < n ? i + 1 : n;
}

/* Return the index after the comment that starts at @i, or @i if there is none. */
static size_t jsonc_comment(const char *text, size_t n, size_t i)
{
	size_t end;

	if (i + 1 >= n || text[i] != '/')
		return i;
	if (text[i + 1] == '/') {
		for (end = i; end < n && text[end] != '\n' && text[end] != '\r';)
			end++;
		return end;
	}
	if (text[i + 1] != '*')
		return i;
	for (end = i + 2; end + 1 < n; end++)
		if (text[end] == '*' && text[end + 1] == '/')
			return end + 2;
	return i; /* not closed: stays an error */
}

void jsonc_to_json(char *text, size_t n)
{
	size_t comma = n, i = 0;

	if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		(void)memset(text, ' ', 3);
	while (i < n) {
		size_t end = jsonc_comment(text, n, i);

		if (end > i) {
			for (; i < end; i++)
				if (text[i] != '\n' && text[i] != '\r')
					text[i] = ' ';
			continue;
		}
		if (text[i] == '"') {
			i = jsonc_string(text, n, i);
			comma = n;
			continue;
		}
		if ((text[i] == ']' || text[i] == '}') && comma < n)
			text[comma] = ' ';
		if (text[i] == ',')
			comma = i;
		else if (!strchr(" \t\r\n", text[i]))
			comma = n;
		i++;
	}
}
