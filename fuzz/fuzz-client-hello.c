/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz-client-hello.c - a ClientHello in one piece and byte by byte gives the same
 * result; a name that is found is in the input
 */
#include <stdlib.h>
#include <string.h>

#include "network/client_hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AUTO_CLIENT_HELLO struct client_hello whole = CLIENT_HELLO_INIT;
	AUTO_CLIENT_HELLO struct client_hello bytes = CLIENT_HELLO_INIT;
	int r = client_hello_feed(&whole, data, size), one = 0;

	for (size_t i = 0; i < size && one == 0; i++)
		one = client_hello_feed(&bytes, data + i, 1);
	/* In one piece, the end of a record is known earlier: both must refuse. */
	if (r != one)
		abort();
	if (r != 1)
		return 0;
	if (whole.name_len != bytes.name_len || whole.ech != bytes.ech ||
	    whole.name_len >= sizeof(whole.name) ||
	    memcmp(whole.name, bytes.name, whole.name_len) != 0)
		abort();
	if (whole.name_len &&
	    !memmem(whole.message.data, whole.message.len, whole.name, whole.name_len))
		abort();
	return 0;
}
