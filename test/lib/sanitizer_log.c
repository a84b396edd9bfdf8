/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sanitizer_log.c - record the reports of sanitizers, wherever a process runs
 *
 * A report is written to the standard error stream, which is /dev/null for many processes
 * of Warren, or a log that a test does not read. The confined processes cannot open a
 * file for it. So a sanitized program maps a file when it starts; its children inherit
 * the mapping, and a report is copied to it without a system call. tools/run/run-tests
 * creates the file (SANITIZER_LOG is its path) and fails a test in which a report
 * appears.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/macro.h"

/* The layout of the file; run-tests knows it. */
static struct sanitizer_log {
	_Atomic uint64_t
		used; /* bytes of @text that are reserved; may be more than it has */
	char text[(1 << 20) - sizeof(uint64_t)];
} * sanitizer_log;

/* Interface of the sanitizers; one that is not linked has no functions. */
void __asan_set_error_report_callback(void (*callback)(const char *report));
void __ubsan_on_report(void);
__attribute__((weak)) void
__ubsan_get_current_report_data(const char **ret_kind, const char **ret_message,
				const char **ret_file, unsigned int *ret_line,
				unsigned int *ret_column, char **ret_address);

static void sanitizer_log_add(const char *report)
{
	size_t size = strlen(report), max = sizeof(sanitizer_log->text);
	if (!sanitizer_log)
		return;
	uint64_t at = atomic_fetch_add(&sanitizer_log->used, size);
	if (at < max)
		memcpy(sanitizer_log->text + at, report,
		       size < max - at ? size : max - at);
}

/* Called by the sanitizer of undefined behaviour. */
__attribute__((visibility("default"))) void __ubsan_on_report(void)
{
	const char *kind = NULL, *message = NULL, *file = NULL;
	unsigned int line = 0, column = 0;
	char *address = NULL, report[1024];
	__ubsan_get_current_report_data(&kind, &message, &file, &line, &column, &address);
	(void)snprintf(report, sizeof(report), "%s:%u:%u: runtime error: %s\n",
		       file ? file : "?", line, column, message ? message : "?");
	sanitizer_log_add(report);
}

__attribute__((constructor)) static void sanitizer_log_open(void)
{
	AUTO_CLOSE int fd = open(SANITIZER_LOG, O_RDWR | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size < (off_t)sizeof(*sanitizer_log))
		return;
	void *p = mmap(NULL, sizeof(*sanitizer_log), PROT_READ | PROT_WRITE, MAP_SHARED,
		       fd, 0);
	if (p == MAP_FAILED)
		return;
	sanitizer_log = p;
	__asan_set_error_report_callback(sanitizer_log_add);
}
