/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forward_ports.h - make the servers of a project available on this machine
 *
 * For each port, this process listens on 127.0.0.1 at the same port or, if that is taken,
 * at the next free one. Connections are accepted while the command runs (run_io.h),
 * because only one thread at a time may use the sandbox; each is then moved by two
 * threads until it ends, at the latest with the sandbox. If the sandbox does not accept a
 * connection, it is reset.
 */
#ifndef CLI_WORK_FORWARD_PORTS_H
#define CLI_WORK_FORWARD_PORTS_H

#include <stddef.h>
#include <stdint.h>

#include "cli/run_io.h"
#include "warren.h"

struct forward_ports;

/* Listen, and say where. @sb must live until forward_ports_close(). */
int forward_ports_open(const char *command, bool quiet, const uint16_t *ports, size_t n,
		       struct warren_sandbox *sb, struct forward_ports **ret,
		       struct warren_error *err) MUST_CHECK;
/* What run_io waits for; it lives as long as @f. */
const struct run_io_source *forward_ports_source(const struct forward_ports *f);
/* Accept no further connections. NULL is allowed; returns NULL. */
struct forward_ports *forward_ports_close(struct forward_ports *f);

#endif /* CLI_WORK_FORWARD_PORTS_H */
