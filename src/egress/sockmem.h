/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sockmem.h - limit the kernel memory that the sockets of flows may hold
 *
 * The buffers of a socket outside are not charged to the sandbox, and the kernel lets
 * each grow to megabytes. A client that opens thousands of connections and reads none of
 * them would soon hold all the memory that the machine has for TCP. So:
 *
 *	- The buffers of a flow have a fixed size, which is smaller the more flows there
 *	  are: SOCKMEM_MIN to SOCKMEM_MAX bytes.
 *	- A flow that has carried SOCKMEM_STEP bytes may grow: the kernel adapts its
 *	  buffers as usual, up to SOCKMEM_GROWN. Only a few flows may grow, per sandbox
 *	  and in total. A flow stays grown until it ends, or until its buffers are empty
 *	  and another flow wants to grow. So a client that stops reading can only prevent
 *	  flows of its own sandbox from growing.
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

/* Call this before a connection is accepted, because it inherits the listener's sizes. */
void sockmem_set_listener(struct egress_sandbox *sb);
/* Call this before a connection to a server is opened. */
void sockmem_prepare(const struct egress_sandbox *sb, int fd);
/* After a socket is connected: fix the size of its buffers. */
void sockmem_fix(const struct egress_flow *f, int fd);
/* Call this after a flow has carried bytes: lets it grow, or stops its growth. */
void sockmem_moved(struct egress_flow *f);
/* Call this when a flow ends. */
void sockmem_release(struct egress_flow *f);

#endif /* EGRESS_SOCKMEM_H */
