/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file.h - what the file handlers share
 *
 * A handler's state begins with a struct file_call; file_begin() makes it known to the
 * call, finds the user, and goes on with `begun` unless the client is gone by then.
 */
#ifndef API_V1_FILE_H
#define API_V1_FILE_H

#include "api/v1/v1.h"
#include "base/json.h"
#include "service/files/files.h"

struct file_call {
	struct call *call;
	struct files *files;
	char path[4096]; /* tidy */
	void (*begun)(struct file_call *fc);
	void (*done)(struct file_call *fc); /* what it owns but itself; NULL: nothing */
};

/*
 * @fc is allocated by malloc(3), or NULL, which is answered; it is the call's from here
 * on.
 */
void file_begin(struct call *c, struct file_call *fc, const char *path, const char *user);
/* The error of a file: what is missing is a file. */
void file_fail(struct call *c, const struct warren_error *engine);
/* The one entry of an answer; else the call is failed, and false. */
bool file_entry(struct call *c, const struct files_answer *a,
		const struct warren_error *err, struct proto_found *ret);
/* Look at the path again, and answer with what is there. */
void file_answer_info(struct file_call *fc, int status);
void show_file(struct json *j, const char *path, const struct proto_found *found);
/* By the words of FileType. */
const char *file_type_name(uint32_t mode);
uint32_t file_type_mode(size_t word);
/* With its quotes. */
void show_etag(char out[80], uint64_t ino, int64_t sec, uint32_t nsec, uint64_t size);
/* "0644"; validated before. */
unsigned file_mode(const char *text);

#endif /* API_V1_FILE_H */
