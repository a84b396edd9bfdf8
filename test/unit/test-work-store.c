/* SPDX-License-Identifier: Apache-2.0 */
/* test-work-store.c - works are created, found, locked, stored and removed */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/strv.h"
#include "work/record.h"
#include "work/work.h"

#include "lib/tap.h"
#include "lib/work.h"

TEST(a_work_is_stored_and_found_again)
{
	const char *const argv[] = { "sh", "-c", "echo\n'\xff%'", "", NULL };
	AUTO_WORK struct work *w = NULL, *again = NULL;
	char prefix[6] = "";

	begin();
	w = start_with(&(struct work_options){ .name = "first",
					       .workdir = "/work space",
					       .image = "debian",
					       .argv = argv,
					       .mode = WORK_COPY });
	(void)memcpy(prefix, w->id, 5);
	EQ(work_open("first", false, &again, &err), 0);
	STREQ(again->id, w->id);
	STREQ(again->project, w->project);
	STREQ(again->workdir, "/work space");
	STREQ(again->image, "debian");
	EQ(again->mode, WORK_COPY);
	EQ(strv_len(again->argv), 4);
	STREQ(again->argv[2], argv[2]);
	STREQ(again->argv[3], "");
	EQ(again->status, -1);
	EQ(again->started_ns, w->started_ns);
	OK(again->project_fd >= 0);
	again = work_close(again);
	EQ(work_open(prefix, false, &again, &err), 0);
	again = work_close(again);
	prefix[4] = '\0';
	EQ(work_open(prefix, false, &again, &err), 0);
	again = work_close(again);
	prefix[3] = '\0'; /* it could be that of another project's work */
	EQ(work_open(prefix, false, &again, &err), -ENOENT);
	OK(!work_exists(prefix));
	EQ(work_open("fir", false, &again, &err), -ENOENT);
	EQ(work_open("second", false, &again, &err), -ENOENT);
	OK(work_exists("first") && !work_exists("f") && !work_exists("second"));
	end();
}

TEST(an_exclusive_work_is_locked_until_it_is_closed)
{
	AUTO_WORK struct work *w = NULL, *again = NULL;
	AUTO_WORK_LIST struct work_list l = { 0 };
	char id[ID_LEN + 1];

	begin();
	w = start();
	(void)strcpy(id, w->id);
	EQ(work_open(id, true, &again, &err), -EBUSY);
	EQ(works_list(project, &l, &err), 0);
	EQ(l.n, 1);
	OK(l.v[0].running);
	work_list_done(&l);
	w = work_close(w);
	EQ(works_list(project, &l, &err), 0);
	OK(!l.v[0].running);
	work_list_done(&l);
	EQ(works_list("/", &l, &err), 0);
	EQ(l.n, 0);
	EQ(work_open(id, true, &w, &err), 0);
	end();
}

TEST(names_are_unique_and_safe)
{
	static const char *const bad[] = { "",       "-x", "a b", "a/b",      "a..b",
					   "x.lock", ".a", "a.",  "\xc3\xa4", NULL };
	AUTO_WORK struct work *w = NULL, *again = NULL;
	struct work_options o = { .project = NULL, .name = "same" };

	begin();
	o.project = project;
	w = start_with(&(struct work_options){ .name = "same" });
	EQ(work_create(&o, &again, &err), -EEXIST);
	for (const char *const *name = bad; *name; name++) {
		o.name = *name;
		EQ(work_create(&o, &again, &err), -EINVAL);
	}
	o.name = "other-1.x";
	EQ(work_create(&o, &again, &err), 0);
	end();
}

TEST(a_removed_work_leaves_nothing)
{
	AUTO_WORK struct work *w = NULL, *again = NULL;
	char id[ID_LEN + 1], path[256];

	begin();
	w = start();
	(void)strcpy(id, w->id);
	(void)snprintf(path, sizeof(path), "%s", w->dir);
	shell("mkdir -p '%s/writes/upper/a/b' && touch '%s/writes/upper/a/b/c'", path,
	      path);
	EQ(work_remove(TAKE_PTR(w), &err), 0);
	EQ(access(path, F_OK), -1);
	EQ(work_open(id, true, &again, &err), -ENOENT);
	end();
}

TEST(a_project_that_was_replaced_is_noticed)
{
	AUTO_WORK struct work *w = NULL;
	char id[ID_LEN + 1];

	begin();
	w = start();
	EQ(work_project(w, &err), 0);
	(void)strcpy(id, w->id);
	w = work_close(w);
	shell("mv p old && mkdir p");
	EQ(work_open(id, true, &w, &err), 0);
	EQ(work_project(w, &err), -ENOENT);
	w = work_close(w);
	shell("rmdir p && mv old p");
	EQ(work_open(id, true, &w, &err), 0);
	EQ(work_project(w, &err), 0);
	end();
}

TEST(a_damaged_record_is_refused)
{
	static const char *const bad[] = {
		"",
		"id\n",
		"id bcdfghjklmnp",
		"id ../../etc/xx\nproject /p\nworkdir /p\n",
		"id bcdfghjklmnp\nproject p\nworkdir /p\n",
		"id bcdfghjklmnp\nproject /p\nworkdir /p\nmode x\n",
		"id bcdfghjklmnp\nproject /p\nworkdir /p\nstatus 99999999999\n",
		"id bcdfghjklmnp\nproject /p%0\nworkdir /p\n",
		"id bcdfghjklmnp\nproject /p%00\nworkdir /p\n",
		NULL,
	};
	char good[] = "id bcdfghjklmnp\nproject /p%0a\nworkdir /p\nnew x\nstatus -1\n";
	struct work_record r = { 0 };

	for (const char *const *text = bad; *text; text++) {
		char copy[128];

		(void)strcpy(copy, *text);
		EQ(work_record_parse(copy, strlen(copy), &r, &err), -EBADMSG);
	}
	EQ(work_record_parse(good, strlen(good), &r, &err), 0);
	STREQ(r.project, "/p\n");
	work_record_done(&r);
}

TEST(the_commit_of_the_repository_is_recorded)
{
	AUTO_WORK struct work *w = NULL;
	char commit[64] = "";
	FILE *f;

	begin();
	git("init -q . && git commit -q --allow-empty -m one && git rev-parse HEAD >../id");
	f = fopen(in("id"), "re");
	OK(f && fscanf(f, "%60s", commit) == 1);
	(void)fclose(f);
	w = start();
	STREQ(w->head, commit);
	w = work_close(w);
	git("pack-refs --all");
	w = start();
	STREQ(w->head, commit);
	w = work_close(w);
	git("checkout -q --detach");
	w = start();
	STREQ(w->head, commit);
	end();
}

TEST(a_project_is_known_when_its_device_has_another_number)
{
	AUTO_WORK struct work *w = NULL;
	AUTO_WORK_LIST struct work_list l = { 0 };
	char id[ID_LEN + 1];
	uint64_t fsid;

	begin();
	EQ(work_create(&(struct work_options){ .project = project }, &w, &err), 0);
	(void)strcpy(id, w->id);
	fsid = w->project_fsid;
	w = work_close(w);
	shell("sed -i 's/^project-dev .*/project-dev 1/' state/works/%s/record", id);
	if (fsid != 0) {
		EQ(work_open(id, false, &w, &err), 0);
		EQ(work_project(w, &err), 0);
		w = work_close(w);
		EQ(works_list(project, &l, &err), 0);
		EQ(l.n, 1);
		work_list_done(&l);
		l = (struct work_list){ 0 };
	}
	shell("sed -i 's/^project-fsid .*/project-fsid 1/' state/works/%s/record", id);
	EQ(work_open(id, false, &w, &err), 0);
	EQ(work_project(w, &err), -ENOENT);
	EQ(works_list(project, &l, &err), 0);
	EQ(l.n, 0);
	end();
}

TEST_MAIN()
