/* SPDX-License-Identifier: Apache-2.0 */
/*
 * limits.h - the table of limits: the only place to add one
 *
 * Each row of SPEC_LIMITS() has, in this order:
 *
 *	ID		of enum spec_limit_id, and of WARREN_LIMIT_ID in warren.h
 *	field		of struct warren_spec, 0: "not given"; also the key in JSON
 *	life		LIVE: also a field of struct warren_limits, so that it can change
 *			while the sandbox runs and be set for one exec. FIXED: set at
 *			creation. Live ones come first
 *	unit		BYTES, MILLIS (thousandths) or COUNT
 *	word		its name for users: option, key, warren_enforcement.name
 *	letter		its short option; 0: none
 *	min, max	bounds of a value that users give; 0: none
 *	value, most	the values of defaults.WORD and max.WORD unless configured; the
 *			second is NONE (which is then allowed) or MOST("number")
 *	example		a value that works, for errors
 *	says		the help of the option
 *	title, note	the help of the configuration keys; @note only for defaults.WORD
 *
 * The table generates these encodings: the requests and responses of the API, the warden
 * protocol, the spec for a shim, state files (live limits), the configuration with its
 * example and manual page, the options of `warren run` and of the client, and the checks
 * of both processes of the service. A new limit needs a row here and the code that
 * enforces it. (The schema `Limits` in openapi.yaml says what clients may send; a test
 * compares it with this table.)
 */
#ifndef SPEC_LIMITS_H
#define SPEC_LIMITS_H

#include <stdint.h>

#define SPEC_MIB (UINT64_C(1) << 20)
#define SPEC_PIB (UINT64_C(1) << 50)
/* Size of the disk of a sandbox that persists, if it has no limit. */
#define SPEC_PERSIST_DISK (UINT64_C(1) << 30)

/* clang-format off */
#define SPEC_LIMITS(LIMIT)                                                                   \
	LIMIT(MEMORY, memory, LIVE, BYTES, "memory", 'm', SPEC_MIB, SPEC_PIB,                \
	      "512m", NONE, "512m", "maximum memory; no swap",                               \
	      "Memory of all processes together", "")                                        \
	LIMIT(CPU, cpu_millis, LIVE, MILLIS, "cpus", 0, 10, 0,                               \
	      "1", NONE, "1.5", "maximum number of processors",                              \
	      "Number of processors", "")                                                    \
	/* The kernel's PID_MAX_LIMIT. */                                                    \
	LIMIT(PIDS, pids, LIVE, COUNT, "pids", 0, 1, 4194304,                                \
	      "1024", MOST("32768"), "100", "maximum number of processes and threads",       \
	      "Number of processes and threads", "")                                         \
	LIMIT(DISK, disk, FIXED, BYTES, "disk", 0, SPEC_MIB, SPEC_PIB,                       \
	      "256m", NONE, "1g", "maximum data written to the root filesystem",             \
	      "Space for data that is written to the root filesystem",                       \
	      ". If this is more than the memory limit, the data is in a file on disk, and creating a sandbox takes longer") \
	/* At least 0, 1, 2 and one to open a library; at most the kernel's NR_OPEN. */      \
	LIMIT(NOFILE, nofile, FIXED, COUNT, "nofile", 0, 4, 1048576,                         \
	      "1024", MOST("65536"), "1024", "maximum number of open files of each process", \
	      "Number of open files of each process", "")
/* clang-format on */

#define SPEC_LIMIT_ID(id, ...) SPEC_##id,
#define SPEC_LIVE_ONE          1
#define SPEC_FIXED_ONE         0
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a term of a sum */
#define SPEC_LIMIT_LIVE(id, field, life, ...) +SPEC_##life##_ONE

enum spec_limit_id {
	SPEC_LIMITS(SPEC_LIMIT_ID) SPEC_LIMIT_MAX, /* number of limits */
	/* Limits with a lower number are live. */
	SPEC_LIVE_MAX = 0 SPEC_LIMITS(SPEC_LIMIT_LIVE),
};

#endif /* SPEC_LIMITS_H */
