/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sentry_rpc.h - the sentry's control protocol: JSON calls over a socket, with
 * descriptors
 *
 *	{"method": "containerManager.WaitPID", "arg": {...}}
 *	{"success": true, "err": "", "result": 0}
 *
 * runsc's own commands use this protocol. Each of them is a program of 24 MB that takes
 * 30 ms to start and stays in memory as long as its command. A direct call takes a tenth
 * of a millisecond, and the three streams of a command go to the sentry without a process
 * that copies in between.
 *
 * A connection carries one call at a time. The sentry counts as part of the untrusted
 * sandbox: its responses are parsed strictly, up to a maximum size.
 */
#ifndef SHIM_GVISOR_SENTRY_RPC_H
#define SHIM_GVISOR_SENTRY_RPC_H

#include <jansson.h>

#include "base/error.h"

#define CONTROL_SECS 20 /* timeout of a call that is answered at once */

/*
 * Connect to the sentry of @id; @runsc_root is the --root of runsc. @ns is the network
 * namespace in which it listens; -1: that of the caller. Return a descriptor or -errno;
 * -ENOENT: there is no sandbox.
 */
int control_open(const char *runsc_root, const char *id, int ns,
		 struct warren_error *err);

/* Send a call. Takes over @arg even on failure; a NULL @arg gives -ENOMEM. */
int control_send(int fd, const char *method, json_t *arg, const int *fds, size_t n_fds,
		 struct warren_error *err);
/*
 * Receive the result, which the caller releases; -EREMOTEIO: the sentry refused, and @err
 * says why; -EPIPE: the sentry has ended. Without @patient, wait at most CONTROL_SECS.
 */
int control_receive(int fd, bool patient, json_t **ret_result, struct warren_error *err);

/* Send a call and receive its result. @ret_result may be NULL. */
int control_call(int fd, const char *method, json_t *arg, json_t **ret_result,
		 struct warren_error *err);

#endif /* SHIM_GVISOR_SENTRY_RPC_H */
