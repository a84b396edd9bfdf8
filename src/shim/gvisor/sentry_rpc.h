/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sentry_rpc.h - the sentry's control protocol: JSON calls over a socket, with
 * descriptors
 *
 *	{"method": "containerManager.WaitPID", "arg": {...}}
 *	{"success": true, "err": "", "result": 0}
 *
 * It is what runsc's own commands speak to a sandbox that runs. Each of those is a
 * program of 24 MB that takes 30 ms to start and stays in memory as long as its command;
 * a call takes a tenth of a millisecond, and the three streams of a command go to the
 * sentry itself, without a process that copies in between.
 *
 * One call at a time on a connection. The sentry counts as inside the sandbox: its
 * answers are parsed strictly, up to a maximum size.
 */
#ifndef SHIM_GVISOR_SENTRY_RPC_H
#define SHIM_GVISOR_SENTRY_RPC_H

#include <jansson.h>

#include "base/error.h"

#define CONTROL_SECS 20 /* for an answer to what is answered at once */

/*
 * @runsc_root: of runsc's --root. A connection, or -errno; -ENOENT: there is no sandbox.
 */
int control_open(const char *runsc_root, const char *id, struct warren_error *err);

/* Takes @arg, also when it fails; NULL is -ENOMEM. */
int control_send(int fd, const char *method, json_t *arg, const int *fds, size_t n_fds,
		 struct warren_error *err);
/*
 * The answer, to be released; -EREMOTEIO: the sentry says no, and why; -EPIPE: it is
 * gone. Waits CONTROL_SECS at most when @patient is not set.
 */
int control_receive(int fd, bool patient, json_t **ret_result, struct warren_error *err);

/* Both. @ret_result may be NULL. */
int control_call(int fd, const char *method, json_t *arg, json_t **ret_result,
		 struct warren_error *err);

#endif /* SHIM_GVISOR_SENTRY_RPC_H */
