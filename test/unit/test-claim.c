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

/* Make a run directory with the two sandboxes aaaaaaaaaaaa and bbbbbbbbbbbb. */
static void two_sandboxes(char *top, char boxes[static 40])
{
	OK(mkdtemp(top));
	(void)snprintf(boxes, 40, "%s/boxes", top);
	EQ(mkdir(boxes, 0700), 0);
	put_file(boxes, "aaaaaaaaaaaa.state", true);
	put_file(boxes, "bbbbbbbbbbbb.state", true);
}

/* Wait until the directory may be read again, and read it: a request more is refused. */
static void look_when_full(struct claims *all, struct claim *c)
{
	(void)nanosleep(&(struct timespec){ .tv_sec = 1, .tv_nsec = 100000000 }, NULL);
	EQ(claims_count(all, c), -EDQUOT);
}

TEST(a_sandbox_that_ended_by_itself_frees_its_place)
{
	char top[] = "/tmp/warren-claim-XXXXXX", boxes[40];
	struct claims *all;
	struct claim c, other;
	int r = -EDQUOT;

	two_sandboxes(top, boxes);
	all = claims_new(top, NULL, 2);
	OK(all);
	EQ(claims_take(all, &c, "cccccccccccc", false), 0);
	EQ(claims_take(all, &other, "dddddddddddd", false), 0);
	EQ(claims_count(all, &c), -EDQUOT);
	put_file(boxes, "bbbbbbbbbbbb.state", false);
	/* The directory is not read for each refused request, but soon. */
	for (int i = 0; i < TRIES && r == -EDQUOT; i++) {
		r = claims_count(all, &c);
		if (r < 0)
			(void)nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	}
	EQ(r, 0);
	EQ(claims_count(all, &other), -EDQUOT);
	/* What the warden itself has ended counts at once. */
	claims_created(all, &c, true);
	claims_destroying(all, &c);
	claims_destroyed(all, &c, true);
	EQ(claims_count(all, &other), 0);
	claims_drop(all, &c);
	claims_drop(all, &other);
	all = claims_free(all);
	copy_remove_tree(AT_FDCWD, top);
}

TEST(a_sandbox_counts_once_while_it_is_created_or_destroyed)
{
	char top[] = "/tmp/warren-claim-XXXXXX", boxes[40];
	struct claims *all;
	struct claim c, d, other;

	two_sandboxes(top, boxes);
	all = claims_new(top, NULL, 3);
	OK(all);
	EQ(claims_take(all, &c, "cccccccccccc", false), 0);
	EQ(claims_take(all, &d, "bbbbbbbbbbbb", false), 0);
	EQ(claims_take(all, &other, "dddddddddddd", false), 0);
	EQ(claims_count(all, &c), 0);
	/* Its state file is there before its request has ended. */
	put_file(boxes, "cccccccccccc.state", true);
	look_when_full(all, &other);
	claims_created(all, &c, true);
	/* That of the other one is gone before its request has ended. */
	claims_destroying(all, &d);
	put_file(boxes, "bbbbbbbbbbbb.state", false);
	look_when_full(all, &other);
	claims_destroyed(all, &d, true);
	/* There are exactly two. */
	EQ(claims_count(all, &other), 0);
	claims_created(all, &other, false);
	EQ(claims_count(all, &other), 0);
	EQ(claims_count(all, &d), -EDQUOT);
	/* One that could not be destroyed still counts. */
	claims_destroying(all, &c);
	claims_destroyed(all, &c, false);
	EQ(claims_count(all, &d), -EDQUOT);
	claims_drop(all, &c);
	claims_drop(all, &d);
	claims_drop(all, &other);
	all = claims_free(all);
	copy_remove_tree(AT_FDCWD, top);
}

TEST_MAIN()
