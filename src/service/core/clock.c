/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clock.c - the clock for expiry; setting the system time does not change it
 *
 * Lifetimes are measured with CLOCK_BOOTTIME, which also counts while the machine sleeps.
 * The service adds an offset, chosen so that the result was equal to the system time when
 * the database was created. The database stores times of this clock. The offset is stored
 * with the id of the boot. Another process of the same boot uses the same offset, even if
 * the system time was changed. After a reboot, only the system time says how long the
 * machine was off; the clock continues from the last stored times, and never goes back.
 *
 * Users see the system time: service_wall() returns the difference between the two
 * clocks. It changes when the system time is set, but not when the system time drifts a
 * little.
 *
 * A machine has only one clock, so the clock is a static variable and not a member of
 * struct service.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "service/core/internal.h"

#define META_CLOCK "clock"
#define META_RUN   "run" /* "<id of the run directory> <time of its first process>" */
#define SET_MS     1000  /* a larger difference means that the system time was set */

static struct {
	char boot[64];
	int64_t distance; /* added to CLOCK_BOOTTIME, in ms */
	int64_t wall;     /* added to that to get the system time */
} service_clock;

static int64_t clock_ms(clockid_t id)
{
	struct timespec ts;

	(void)clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int64_t service_time(void)
{
	return clock_ms(CLOCK_BOOTTIME) + service_clock.distance;
}

int64_t service_wall(int64_t time)
{
	int64_t wall = clock_ms(CLOCK_REALTIME) - service_time();

	if (llabs(wall - service_clock.wall) > SET_MS)
		service_clock.wall = wall;
	return time + service_clock.wall;
}

/* Continue from the values of an earlier process; false: they cannot be read. */
static bool clock_resume(const char *text, const char *boot)
{
	int64_t distance, last, wall, now = clock_ms(CLOCK_REALTIME);
	char before[sizeof(service_clock.boot)];

	if (sscanf(text, "%63s %" SCNd64 " %" SCNd64 " %" SCNd64, before, &distance,
		   &last, &wall) != 4)
		return false;
	if (boot[0] && strcmp(before, boot) == 0)
		service_clock.distance = distance;
	else
		service_clock.distance =
			last + (now > wall ? now - wall : 0) - clock_ms(CLOCK_BOOTTIME);
	/* The clock never goes back within one boot, so this boot id cannot be right. */
	if (service_time() < last)
		service_clock.distance += last - service_time();
	return true;
}

int service_clock_save(struct db *db, struct warren_error *err)
{
	char text[160];

	(void)snprintf(text, sizeof(text), "%s %" PRId64 " %" PRId64 " %" PRId64,
		       service_clock.boot[0] ? service_clock.boot : "-",
		       service_clock.distance, service_time(), clock_ms(CLOCK_REALTIME));
	return db_set_meta(db, META_CLOCK, text, err);
}

int service_clock_open(struct db *db, const char *boot, struct warren_error *err)
{
	AUTO_FREE char *text = NULL;
	struct warren_error none = WARREN_ERROR_INIT;
	int r = db_get_meta(db, META_CLOCK, &text, &none);

	if (r < 0 && r != -ENOENT) {
		*err = none;
		return r;
	}
	(void)snprintf(service_clock.boot, sizeof(service_clock.boot), "%s", boot);
	if (r < 0 || !clock_resume(text, boot))
		service_clock.distance =
			clock_ms(CLOCK_REALTIME) - clock_ms(CLOCK_BOOTTIME);
	service_clock.wall = 0;
	return service_clock_save(db, err);
}

/*
 * The first process that finds another run directory than the one before notes the time.
 * So it does not matter if the system time is set afterwards. A database without a note
 * is that of an older version; only the system time says when its run directory was
 * created.
 */
int service_clock_run(struct db *db, const char *id, int64_t made, int64_t *ret_since,
		      struct warren_error *err)
{
	AUTO_FREE char *text = NULL;
	struct warren_error none = WARREN_ERROR_INIT;
	char note[192], before[128] = "";
	int64_t since = 0;
	int r = id[0] ? db_get_meta(db, META_RUN, &text, &none) : -ENOENT;

	if (r < 0 && r != -ENOENT) {
		*err = none;
		return r;
	}
	if (r == 0)
		(void)sscanf(text, "%127s %" SCNd64, before, &since);
	if (r == 0 && strcmp(before, id) == 0) {
		*ret_since = since;
		return 0;
	}
	*ret_since = r == 0 ? service_time()
		     : made ? service_time() - (clock_ms(CLOCK_REALTIME) - made)
			    : 0;
	if (!id[0])
		return 0;
	(void)snprintf(note, sizeof(note), "%s %" PRId64, id, *ret_since);
	return db_set_meta(db, META_RUN, note, err);
}
