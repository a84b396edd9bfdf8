/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filing.h - open or replace one file on behalf of an MCP call
 *
 * New content is written completely before it replaces the old file. Until then, the new
 * file has no name. On filesystems that do not support this, it has a temporary name and
 * is removed if the call ends.
 */
#ifndef API_MCP_FILING_H
#define API_MCP_FILING_H

#include <sys/stat.h>

#include "api/mcp/internal.h"
#include "api/path.h"
#include "service/files/file_writer.h"
#include "service/files/files.h"

struct mcp_filing {
	struct mcp_call *call;
	struct files *files;
	char path[API_PATH_MAX];
	/* Report an error with the file. NULL: report a tool error. */
	void (*failed)(struct mcp_call *c, const struct warren_error *err);
	void (*begun)(struct mcp_filing *k); /* the next step after mcp_filing_new() */
	/* Reading: */
	void (*opened)(struct mcp_filing *k);
	int fd; /* -1: not open, or in use by another thread */
	struct stat st;
	/* Writing: */
	void (*stored)(struct mcp_filing *k, bool created);
	const char *content; /* bytes to write, which belong to the call or to `data` */
	size_t size, written;
	struct buf data;
	unsigned mode;  /* mode of a new file */
	bool sets_mode; /* also set the mode of an existing file */
	struct file_target_op *finding;
	struct file_target place;
	struct file_writer *writer;
	struct loop_task next_piece;
	uint32_t stream;
	bool nameless, made;
	uint64_t count; /* free for use by the caller */
	char name[64];
};

/*
 * Allocate the state for work with one file, and attach it to the call. Returns NULL on
 * failure; the call was then answered with an error.
 */
struct mcp_filing *mcp_filing_new(struct mcp_call *c);
/* Open the file, and call `opened`. */
void mcp_filing_open(struct mcp_filing *k, struct sandbox *sandbox);
/* Replace the file with `content`, and call `stored`. */
void mcp_filing_store(struct mcp_filing *k, struct sandbox *sandbox);
/* Like mcp_filing_store(), but for a file that mcp_filing_open() has opened. */
void mcp_filing_replace(struct mcp_filing *k);
void mcp_filing_fail(struct mcp_filing *k, const struct warren_error *err);
/* Read at most @max bytes from @offset, on any thread. */
int mcp_filing_read(int fd, uint64_t offset, size_t max, struct buf *out);

#endif /* API_MCP_FILING_H */
