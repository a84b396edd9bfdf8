/* SPDX-License-Identifier: Apache-2.0 */
/* control.h - serves the requests of egress_proto.h over a socket */
#ifndef EGRESS_CONTROL_H
#define EGRESS_CONTROL_H

#include "egress/egress.h"

struct control;

/*
 * Takes @fd. When the connection ends, the loop is stopped. @given: the servers and TLS
 * to use; the rest is set here.
 */
int control_new(struct net_loop *loop, int fd, const struct egress_options *given,
		struct control **ret, struct warren_error *err) MUST_CHECK;
struct control *control_free(struct control *c);

#endif /* EGRESS_CONTROL_H */
