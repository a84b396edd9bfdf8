/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file.h - shared by the handlers for files
 *
 * The state of a handler begins with a struct file_call. file_begin() attaches it to the
 * call, finds the user, and calls `begun` unless the client has left.
 */
#ifndef API_V1_FILE_H
#define API_V1_FILE_H

#include <sys/stat.h>

#include "api/v1/v1.h"
#include "base/json.h"
#include "service/files/files.h"

struct file_call {
	struct call *call;
	struct files *files;
	char path[4096]; /* path without redundant slashes */
	void (*begun)(struct file_call *fc);
	/* Answers if it could not begin; NULL: with the error. */
	void (*failed)(struct file_call *fc, const struct warren_error *err);
	/*
	 * Frees the members of the state, but not the state itself; NULL: nothing to
	 * free.
	 */
	void (*done)(struct file_call *fc);
};

/*
 * Begin the call. Takes @fc, which was allocated with malloc(3). If @fc is NULL, the call
 * is answered with an error.
 */
void file_begin(struct call *c, struct file_call *fc, const char *path, const char *user);
/* Answer with the error of a file; ENOENT means that the file is missing. */
void file_fail(struct call *c, const struct warren_error *engine);
/* The same error, without an answer. */
void file_error(struct api_error *ret, const struct warren_error *engine);
/* Get the only entry of a reply. False: the call was answered with an error. */
bool file_entry(struct call *c, const struct files_answer *a,
		const struct warren_error *err, struct proto_found *ret);
/* Inspect the path again, and answer with the result. */
void file_answer_info(struct file_call *fc, int status);
/* file_read.c: answer with the regular file @fd, or with the range that is requested. */
void file_send(struct call *c, int fd, const struct stat *st);
void show_file(struct json *j, const char *path, const struct proto_found *found);
/* Conversion to and from the words of FileType. */
const char *file_type_name(uint32_t mode);
uint32_t file_type_mode(size_t word);
/* The ETag with its quotes. */
void show_etag(char out[80], uint64_t ino, int64_t sec, uint32_t nsec, uint64_t size);
/* Convert octal permissions such as "0644", which are valid. */
unsigned file_mode(const char *text);

#endif /* API_V1_FILE_H */
