/* SPDX-License-Identifier: Apache-2.0 */
/* machine.c - the memory of this machine */
#include "spec/machine.h"

#include <errno.h>
#include <sys/sysinfo.h>

int machine_check_memory(uint64_t memory, struct warren_error *err)
{
	struct sysinfo info;
	uint64_t all;

	if (sysinfo(&info) < 0)
		return 0;
	all = (uint64_t)info.totalram * info.mem_unit;
	return memory > all
		       ? error_set(err, EINVAL,
				   "memory: %ju is more than the %ju bytes that this "
				   "machine has",
				   (uintmax_t)memory, (uintmax_t)all)
		       : 0;
}
