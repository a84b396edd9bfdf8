/* SPDX-License-Identifier: Apache-2.0 */
/*
 * common_options.h - options that several commands share
 *
 *	{ "Computer", OPT_READ_ONLY(FIELD(read_only)) },
 *
 * The parts that differ between commands are arguments: an example value and the help
 * text.
 */
#ifndef CLI_COMMON_OPTIONS_H
#define CLI_COMMON_OPTIONS_H

#include "cli/opts.h"
#include "cli/values.h"
#include "spec/limits.h"

/* clang-format off */
#define OPT_IMAGE(works, says, at) \
	"image", 0, "IMAGE", (works), \
	(says), value_image, (at)
#define OPT_PULL(at) \
	"pull", 0, "WHEN", "always", \
	"missing (the default), always, or never", value_pull, (at)
#define OPT_PLATFORM(at) \
	"platform", 0, "OS/ARCH", "linux/arm64", \
	"platform to pull (default: this machine's)", value_platform, (at)
#define OPT_BACKEND(works, says, at) \
	"backend", 0, "NAME", (works), \
	(says), opt_text, (at)
#define OPT_TIER(works, says, at) \
	"tier", 0, "TIER", (works), \
	(says), opt_text, (at)
#define OPT_NAME(says, at) \
	"name", 0, "NAME", "rollout-42", \
	(says), opt_text, (at)
#define OPT_HOSTNAME(says, at) \
	"hostname", 0, "NAME", "burrow", \
	(says), value_hostname, (at)
#define OPT_READ_ONLY(at) \
	"read-only", 0, NULL, NULL, \
	"make the root filesystem read-only", opt_flag, (at)
#define OPT_VOLUME(works, says, at) \
	"volume", 'v', "SRC:DST[:ro]", (works), \
	(says), value_volume, (at)
#define OPT_TMPFS(at) \
	"tmpfs", 0, "DST[:size=SIZE]", "/scratch:size=64m", \
	"mount an empty tmpfs at DST", value_tmpfs, (at)
#define OPT_ENV(at) \
	"env", 'e', "NAME[=VALUE]", "DEBUG=1", \
	"set a variable; without a value, copy the caller's", value_env, (at)
#define OPT_ENV_FILE(at) \
	"env-file", 0, "FILE", "./settings.env", \
	"read variables from a file, one on each line", value_env_file, (at)
#define OPT_WORKDIR(says, at) \
	"workdir", 'w', "DIR", "/work", \
	(says), value_workdir, (at)
#define OPT_USER(says, at) \
	"user", 'u', "USER", "1000:1000", \
	(says), value_user, (at)
#define OPT_SHELL(at) \
	"shell", 0, "SHELL", "bash", \
	"shell name or path (default: bash if present, otherwise sh)", opt_text, (at)
#define OPT_INTERACTIVE(at) \
	"interactive", 'i', NULL, NULL, \
	"forward stdin (otherwise it is /dev/null)", opt_flag, (at)
#define OPT_TTY(at) \
	"tty", 't', NULL, NULL, \
	"allocate a terminal", opt_flag, (at)
#define OPT_UNDOABLE(at) \
	"undoable", 0, NULL, NULL, \
	"let 'warren undo' restore the files from before the command", opt_flag, (at)
#define OPT_UNDOABLE_ALL(at) \
	"undoable", 0, NULL, NULL, \
	"let 'warren undo' restore the files from before each command", opt_flag, (at)
#define OPT_TIMEOUT(says, at) \
	"timeout", 0, "DURATION", "30s", \
	(says), opt_duration, (at)
#define OPT_LABEL(says, at) \
	"label", 'l', "KEY[=VALUE]", "team=search", \
	(says), value_word, (at)
#define OPT_STATE(says, at) \
	"state", 's', "STATE", "running", \
	(says), value_word, (at)
#define OPT_SANDBOX(says, at) \
	"sandbox", 0, "SANDBOX", "k3f9x2m7qd1w", \
	(says), opt_text, (at)
#define OPT_QUIET(says, at) \
	"quiet", 'q', NULL, NULL, \
	(says), opt_flag, (at)
#define OPT_JSON(says, at) \
	"json", 0, NULL, NULL, \
	(says), opt_flag, (at)

/*
 * A whole option for each row of SPEC_LIMITS(). The caller wraps it in a macro with the
 * title of the group and the offset of the array of limits:
 *
 *	#define RUN_LIMIT(...) OPT_LIMIT("Limits", FIELD(limits), __VA_ARGS__)
 */
#define OPT_LIMIT(title, at, id, field, life, unit, word, letter, min, max, value, most, \
		  example, says, ...) \
	{ SPEC_##id == 0 ? (title) : NULL, (word), (letter), OPT_VALUE_##unit, (example), \
	  (says), value_limit_##field, (at) + SPEC_##id * sizeof(uint64_t) },
/* Like OPT_LIMIT(), but only for limits that can be set for a single exec. */
#define OPT_LIVE_LIMIT(title, at, id, field, life, ...) \
	OPT_IF_##life(OPT_LIMIT(title, at, id, field, life, __VA_ARGS__))
#define OPT_IF_LIVE(...) __VA_ARGS__
#define OPT_IF_FIXED(...)
#define OPT_VALUE_BYTES  "SIZE"
#define OPT_VALUE_MILLIS "N"
#define OPT_VALUE_COUNT  "N"
/* clang-format on */

#endif /* CLI_COMMON_OPTIONS_H */
