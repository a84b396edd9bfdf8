/* SPDX-License-Identifier: Apache-2.0 */
/* boot.h - the id that the machine got when it was started */
#ifndef BASE_BOOT_H
#define BASE_BOOT_H

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"

#define BOOT_ID_SIZE 64

/* "": it is not known. */
static inline void boot_id_read(char ret[BOOT_ID_SIZE])
{
	if (fd_read_file_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", ret,
			    BOOT_ID_SIZE) < 0)
		ret[0] = '\0';
	ret[strcspn(ret, " \n")] = '\0';
}

#endif /* BASE_BOOT_H */
