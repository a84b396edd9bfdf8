/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sockmem.h - how much memory of the kernel the sockets of flows may hold
 *
 * The buffers of a socket outside are not charged to the sandbox, and the kernel lets
 * each grow to megabytes. A client that opens thousands of connections and reads none of
 * them would soon hold all the memory that the machine has for TCP. So:
 *
 *	- The buffers of a flow have a fixed size, which is smaller the more flows there
 *	  are: SOCKMEM_MIN to SOCKMEM_MAX bytes.
 *	- A flow that has carried SOCKMEM_STEP bytes may grow: the kernel adapts its
 *	  buffers as usual, up to SOCKMEM_GROWN. Only a few flows may, per sandbox and in
 *	  total. A flow that has grown stays so until it ends, or until its buffers are
 *	  empty and another flow asks. A client that stops reading therefore keeps others
 *	  of its own sandbox small, and no more.
 */
#ifndef EGRESS_SOCKMEM_H
#define EGRESS_SOCKMEM_H

#include <stdint.h>

#define SOCKMEM_MIN     4096U
#define SOCKMEM_MAX     (192U << 10)
#define SOCKMEM_SANDBOX (8U << 20)   /* maximum for all flows of a sandbox, per buffer */
#define SOCKMEM_ALL     (64U << 20)  /* maximum for all flows, per buffer */
#define SOCKMEM_STEP    (256U << 10) /* number of bytes between two checks of a flow */

#define SOCKMEM_GROWN       (4U << 20)  /* size of a receive buffer that has grown */
#define SOCKMEM_GRANT       (16U << 20) /* maximum memory of a flow that has grown */
#define SOCKMEM_GRANTS      32 /* maximum number of flows that may grow, of all sandboxes */
#define SOCKMEM_GRANTS_EACH 4 /* maximum number of flows of one sandbox */
/* Time without a byte after which a flow may be made small again. */
#define SOCKMEM_GRANT_IDLE_MS 1000

struct egress_flow;
struct egress_sandbox;

/* How many flows may grow on a machine that has @bytes for TCP; 0: it is not known. */
unsigned sockmem_grants(uint64_t bytes);

/* Before a connection is accepted: it inherits the sizes of the listener. */
void sockmem_set_listener(struct egress_sandbox *sb);
/* Before a connection to a server is made. */
void sockmem_prepare(const struct egress_sandbox *sb, int fd);
/* The socket is connected: its buffers stay as they are. */
void sockmem_fix(const struct egress_flow *f, int fd);
/* The flow has carried bytes: it may grow now, or has grown enough. */
void sockmem_moved(struct egress_flow *f);
/* The flow ends. */
void sockmem_release(struct egress_flow *f);

#endif /* EGRESS_SOCKMEM_H */
