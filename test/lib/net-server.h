/* SPDX-License-Identifier: Apache-2.0 */
/* net-server.h - definitions that the files of the test server share */
#ifndef TEST_NET_SERVER_H
#define TEST_NET_SERVER_H

#include <stdint.h>

#include "net/http.h"
#include "net/loop.h"

struct counts {
	int64_t open, answered, lost; /* requests */
	int64_t last_why;
	uint64_t received; /* bytes of bodies received */
};

extern struct net_loop *the_loop;
extern struct http_server *the_server;

extern struct counts counts;

void count_closed(struct http_request *req, int why);
/* "/ws" echoes messages; "/proxy/PORT/..." returns the answer of a server on loopback. */
void serve_ws(struct http_request *req);
void serve_proxy(struct http_request *req);

uint64_t query_u64(const struct http_request *req, const char *name, uint64_t otherwise);

#endif /* TEST_NET_SERVER_H */
