/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scripts.c - scripts for the image's own shell
 *
 * Variables have names that begin with warren_ where the command's own variables must not
 * be changed. Tools that are not part of the shell (mkdir, cat, grep) may be missing:
 * then the script continues without them, or reports what is missing.
 */
#include "shim/core/scripts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char script_start[] =
	/* clang-format off */
	"warren_m=$1 warren_d=$2 warren_o=$3\n"
	"shift 3\n"
	"warren_no() { echo \"$warren_m no $1\" >&2; exit 127; }\n"
	"case $warren_o in *m*) [ -d \"$warren_d\" ] || mkdir -p \"$warren_d\" 2>/dev/null ||\n"
		"command -v mkdir >/dev/null 2>&1 || warren_no mkdir;; esac\n"
	"cd \"$warren_d\" 2>/dev/null || warren_no cwd\n"
	"unset OLDPWD\n"
	"case $1 in\n"
	"*/*)\n"
		"[ -e \"$1\" ] || warren_no ENOENT\n"
		"{ [ ! -d \"$1\" ] && [ -x \"$1\" ]; } || warren_no EACCES\n"
		/* If a file is not a program, the shell would run it as a script. */
		"if [ -f \"$1\" ] && [ -r \"$1\" ]; then\n"
			"IFS= read -r warren_l <\"$1\" 2>/dev/null\n"
			"case $warren_l in '#!'*|?ELF*) ;; *) warren_no ENOEXEC;; esac\n"
		"fi\n"
		";;\n"
	"*)\n"
		"warren_w=ENOENT warren_i=$IFS\n"
		"set -f; IFS=:\n"
		"for warren_x in $PATH; do\n"
			"[ -f \"$warren_x/$1\" ] || continue\n"
			"[ -x \"$warren_x/$1\" ] && { warren_w=; break; }\n"
			"warren_w=EACCES\n"
		"done\n"
		"set +f; IFS=$warren_i\n"
		"[ -z \"$warren_w\" ] || warren_no $warren_w\n"
	"esac\n"
	"warren_s=\n"
	"{ read -r warren_s </proc/self/stat; } 2>/dev/null\n"
	"echo \"$warren_m ok $$ ${warren_s##*) }\" >&2\n"
	"case $warren_o in *n*) exec \"$@\" 2>/dev/null;; *) exec \"$@\";; esac\n";
/* clang-format on */

const char script_learn[] =
	/* clang-format off */
	"echo \"$1\"\n"
	"{ while read -r warren_k warren_v warren_x; do\n"
		"case $warren_k in Uid:|Gid:) echo \"$warren_k$warren_v\";; esac\n"
	"done </proc/self/status; } 2>/dev/null\n"
	"echo \"Home:$HOME\"\n"
	"echo \"Cwd:$(pwd)\"\n"
	"echo \"Path:$PATH\"\n"
	"if [ -n \"$2\" ] && command -v ls >/dev/null && ! ls -d / >/dev/null 2>&1; then echo Ls:fails; fi\n"
	"echo Env:\n"
	"exec cat /proc/self/environ 2>/dev/null\n";
/* clang-format on */

const char script_processes[] =
	/* clang-format off */
	/* Prefer cat, which takes a tenth of the time, because a shell reads byte by
	 * byte. */
	"if command -v cat >/dev/null 2>&1; then\n"
		"cat /proc/[0-9]*/stat 2>/dev/null\n"
	"else\n"
		"for d in /proc/[0-9]*; do\n"
			"while IFS= read -r l || [ -n \"$l\" ]; do printf '%s\\n' \"$l\"; done <\"$d/stat\"\n"
		"done 2>/dev/null\n"
	"fi\n"
	"echo\n"
	"if command -v grep >/dev/null 2>&1; then\n"
		"grep -lF \"$m\" /proc/[0-9]*/environ 2>/dev/null\n"
	"else\n"
		"for d in /proc/[0-9]*; do\n"
			"e=$(cat \"$d/environ\")\n"
			"for x in $m; do case $e in *\"$x\"*) echo \"$d/environ\"; break;; esac; done\n"
		"done 2>/dev/null\n"
	"fi\n";
/* clang-format on */

const char script_tools[] =
	/* clang-format off */
	"need() {\n"
		"for t; do command -v \"$t\" >/dev/null 2>&1 && return; done\n"
		"[ $# -gt 1 ] && echo \"" SCRIPT_LACKS "ne of $*\" || echo \"" SCRIPT_LACKS " $1\"\n"
		"return 1\n"
	"}\n"
	"pour() { case $t in dd) dd bs=65536;; tail) tail -c +1;; *) cat;; esac; }\n"
	"plain() { command \"$@\" || { [ $? -eq 127 ] && command -v busybox >/dev/null && busybox \"$@\"; }; }\n"
	"if command -v busybox >/dev/null 2>&1; then\n"
		"for t in cat chmod chown dd find grep ln ls mkdir mv readlink rm rmdir stat tail touch wc; do\n"
			"command -v $t || { busybox $t --help && eval \"$t() { busybox $t \\\"\\$@\\\"; }\"; }\n"
		"done >/dev/null 2>&1 </dev/null\n"
	"fi\n";
/* clang-format on */

/* Ask the guest agent first (agent/guest/tools.h), and use the image's tool if the guest
 * agent cannot do it.
 * */
const char script_served[] =
	/* clang-format off */
	"warren_served=1\n"
	"ask() { printf '%s\\0' $# \"$@\" >&8 && read -r warren_e <&9; }\n"
	"served() {\n"
		"ask \"$@\" || return\n"
		"case $warren_e in\n"
		"0) ;;\n"
		"38) plain \"$@\";;\n"
		"*) echo \"" SCRIPT_ERRNO "$warren_e\"; return 1;;\n"
		"esac\n"
	"}\n"
	"for t in chmod chown ln mkdir rm rmdir touch; do\n"
		"eval \"$t() { served $t \\\"\\$@\\\"; }\"\n"
	"done\n";
/* clang-format on */

/* Convert an error message of a tool to an errno. The words are those of the C library or
 * of other programs. */
int script_errno(const char *said, int other, const char **ret_why)
{
	static const int codes[] = {
		ENOENT,    EEXIST, ENOTDIR, EISDIR,     EACCES,       EPERM,
		ENOTEMPTY, EROFS,  ENOSPC,  EDQUOT,     EFBIG,        ELOOP,
		EBUSY,     EXDEV,  EIO,     EINVAL,     ENAMETOOLONG, EMLINK,
		E2BIG,     ENXIO,  ETXTBSY, EOPNOTSUPP,
	};

	const char *lacks, *number = strstr(said, SCRIPT_ERRNO);
	int code;

	if (ret_why)
		*ret_why = NULL;
	if (number) {
		code = (int)strtol(number + strlen(SCRIPT_ERRNO), NULL, 10);
		return code > 0 && strerrorname_np(code) ? code : other;
	}
	/* Some shells use their own words. */
	if (strstr(said, "nonexistent") || strcasestr(said, "no such file"))
		return ENOENT;
	/* mv also has its own message for an error of the kernel. */
	if (strstr(said, "subdirectory of itself"))
		return EINVAL;
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (strcasestr(said, strerrordesc_np(codes[i])))
			return codes[i];
	lacks = strstr(said, SCRIPT_LACKS);
	if (ret_why && said[0])
		*ret_why = lacks ? lacks : said;
	return lacks ? EOPNOTSUPP : other;
}

void script_quote(struct buf *out, const char *text)
{
	buf_puts(out, "'");
	for (;;) {
		size_t n = strcspn(text, "'");

		buf_add(out, text, n);
		if (!text[n])
			break;
		buf_puts(out, "'\\''");
		text += n + 1;
	}
	buf_puts(out, "'");
}
