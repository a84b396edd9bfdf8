/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filing.h - the work of a call with one file: open it to read, or replace it
 *
 * A new content is written completely before it replaces the old file: until then it has
 * no name, or where the file system has no such files a temporary one, which is removed
 * if the call ends.
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
	/* Answers with an error of the file; NULL: an error of the tool. */
	void (*failed)(struct mcp_call *c, const struct warren_error *err);
	void (*begun)(struct mcp_filing *k); /* what follows the beginning */
	/* Reading: */
	void (*opened)(struct mcp_filing *k);
	int fd; /* -1: not open, or another thread has it */
	struct stat st;
	/* Writing: */
	void (*stored)(struct mcp_filing *k, bool created);
	struct buf data; /* to write */
	unsigned mode;   /* of a new file */
	bool sets_mode;  /* of an old one, too */
	struct file_target_op *finding;
	struct file_target place;
	struct file_writer *writer;
	uint32_t stream;
	bool nameless, made;
	uint64_t count; /* for the caller */
	char name[64];
};

/*
 * Begin for @path in @sandbox; the call has the state from then on. NULL: the call was
 * answered.
 */
struct mcp_filing *mcp_filing_new(struct mcp_call *c);
/* Open the file, and call `opened`. */
void mcp_filing_open(struct mcp_filing *k, struct sandbox *sandbox);
/* Replace the file with `data`, and call `stored`. */
void mcp_filing_store(struct mcp_filing *k, struct sandbox *sandbox);
/* The same after mcp_filing_open(). */
void mcp_filing_replace(struct mcp_filing *k);
void mcp_filing_fail(struct mcp_filing *k, const struct warren_error *err);
/* Read at most @max bytes from @offset, on any thread. */
int mcp_filing_read(int fd, uint64_t offset, size_t max, struct buf *out);

#endif /* API_MCP_FILING_H */
