/* SPDX-License-Identifier: Apache-2.0 */
/* test-claim.c - the number of sandboxes, and changes of it that the warden did not make
 */
#include "warden/claim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "image/copy.h"
#include "lib/tap.h"

#define TRIES 600

static void put_file(const char *dir, const char *name, bool there)
{
	char path[200];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (!there) {
		EQ(unlink(path), 0);
		return;
	}
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	OK(fd >= 0);
	(void)close(fd);
}

TEST(a_sandbox_that_ended_by_itself_frees_its_place)
{
	char top[] = "/tmp/warren-claim-XXXXXX", boxes[40];
	struct claims *all;
	int r = -EDQUOT;

	OK(mkdtemp(top));
	(void)snprintf(boxes, sizeof(boxes), "%s/boxes", top);
	EQ(mkdir(boxes, 0700), 0);
	put_file(boxes, "aaaaaaaaaaaa.state", true);
	put_file(boxes, "bbbbbbbbbbbb.state", true);
	all = claims_new(top, NULL, 2);
	OK(all);
	EQ(claims_count(all), -EDQUOT);
	put_file(boxes, "bbbbbbbbbbbb.state", false);
	/* The directory is not read for each refused request, but soon. */
	for (int i = 0; i < TRIES && r == -EDQUOT; i++) {
		r = claims_count(all);
		if (r < 0)
			(void)nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	}
	EQ(r, 0);
	EQ(claims_count(all), -EDQUOT);
	/* What the warden itself has ended counts at once. */
	claims_created(all, true);
	claims_destroyed(all);
	EQ(claims_count(all), 0);
	all = claims_free(all);
	copy_remove_tree(AT_FDCWD, top);
}

TEST_MAIN()
