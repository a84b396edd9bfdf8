/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.c - run a fuzz target over saved inputs, so that every test run keeps them
 * passing
 *
 *	fuzz-x FILE|FOLDER...
 *
 * The name of each input is printed before it runs, so after a crash the last line shows
 * which input caused it.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLAY_SKIP 77
#define REPLAY_MAX  (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
	FILE *f = fopen(path, "re");
	uint8_t *buf, *exact;
	size_t n;

	buf = malloc(REPLAY_MAX);
	if (!f || !buf) {
		(void)fprintf(stderr, "%s: %s\n", path, strerror(errno));
		exit(EXIT_FAILURE);
	}
	n = fread(buf, 1, REPLAY_MAX, f);
	(void)fclose(f);

	(void)printf("%s (%zu bytes)\n", path, n);
	(void)fflush(stdout);

	/* Leave no spare byte after the input, so that a sanitizer detects a read beyond
	 * its end. */
	exact = realloc(buf, n > 0 ? n : 1);
	(void)LLVMFuzzerTestOneInput(exact ? exact : buf, n);
	free(exact ? exact : buf);
	return 1;
}

static int not_hidden(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

static int replay(const char *path)
{
	struct dirent **names = NULL;
	int n, done = 0;

	n = scandir(path, &names, not_hidden, alphasort);
	if (n < 0 && errno == ENOTDIR)
		return replay_file(path);
	for (int i = 0; i < n; i++) {
		char file[PATH_MAX];

		(void)snprintf(file, sizeof(file), "%s/%s", path, names[i]->d_name);
		done += replay_file(file);
		free(names[i]);
	}
	free(names);
	return done;
}

int main(int argc, char **argv)
{
	int done = 0;

	for (int i = 1; i < argc; i++)
		done += replay(argv[i]);
	if (done == 0) {
		(void)printf("no inputs to replay\n");
		return REPLAY_SKIP;
	}
	return EXIT_SUCCESS;
}
