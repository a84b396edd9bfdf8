/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ca_mount.h - add trusted certificates to a running sandbox, without changing its files
 *
 * A child process enters the mount namespace of the sandbox. There it mounts a read-only
 * tmpfs at CA_MOUNT_DIR, and read-only files of this tmpfs over the files in which the
 * image keeps the certificates that its programs trust. Each of these is a copy of the
 * image's file, followed by the new certificate. So neither the image nor the upper
 * directory changes. The mounts end with the sandbox.
 *
 * Everything in the sandbox may be hostile. Paths are resolved in its root, only regular
 * files are read, and their size is limited. The child has no privileges on the host if
 * the sandbox has a user namespace.
 */
#ifndef OS_CA_MOUNT_H
#define OS_CA_MOUNT_H

#include <errno.h>

#include "base/error.h"

#define CA_MOUNT_DIR  "/etc/warren"
#define CA_MOUNT_NAME "ca-certificates.crt"
#define CA_MOUNT_FILE CA_MOUNT_DIR "/" CA_MOUNT_NAME
/* Maximum size of a file with certificates; all files together have twice this size. */
#define CA_MOUNT_MAX (2U << 20)

/*
 * @bundle is a file with certificates (PEM), which becomes CA_MOUNT_FILE; its last
 * certificate is added to the files of the image. setns(2) with @ns and @flags enters the
 * sandbox: CLONE_NEWNS, and CLONE_NEWUSER if @ns is a pidfd of a process with a user
 * namespace. If the sandbox already trusts the certificate, nothing happens.
 * -CA_MOUNT_INSIDE: the reason of the failure is in the sandbox, for example a file that
 * is too large, or a filesystem that does not answer.
 */
#define CA_MOUNT_INSIDE EILSEQ
int ca_mount(int ns, int flags, int bundle, struct warren_error *err) MUST_CHECK;

#endif /* OS_CA_MOUNT_H */
