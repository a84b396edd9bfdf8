/* SPDX-License-Identifier: Apache-2.0 */
/* trust.h - the file with all certificates that a sandbox trusts */
#ifndef EGRESS_TRUST_H
#define EGRESS_TRUST_H

#include "base/error.h"

/*
 * Write the certificates of this machine's authorities and that of the authority in the
 * file @authority to the file @path, as PEM. The file is replaced at once; its directory
 * is created if it is missing. Everyone may read it.
 */
int trust_write(const char *path, const char *authority,
		struct warren_error *err) MUST_CHECK;

#endif /* EGRESS_TRUST_H */
