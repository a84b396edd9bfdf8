/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c - show a bar for each layer, or print a line for each change */
#include "cli/image/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "base/fd.h"
#include "cli/format.h"
#include "cli/image/cancel.h"
#include "cli/image/report.h"

#define LINE_MAX_LEN 160
#define BAR_MAX      40
#define NARROW       60 /* columns below which there is no bar */
#define SCREEN_MAX   (1U << 20)
#define SPEED_NS     500000000 /* minimum time over which it is measured */

struct progress_layer {
	enum oci_state state;
	bool told;             /* plain lines: this state was printed */
	uint64_t since, bytes; /* time of the last measurement of the speed, and the bytes
				  at that time */
	double speed;          /* bytes per second, 0: not known yet */
};

static const char *const state_names[] = {
	[OCI_WAITING] = "waiting",     [OCI_DOWNLOADING] = "downloading",
	[OCI_UNPACKING] = "unpacking", [OCI_PACKING] = "packing",
	[OCI_UPLOADING] = "uploading", [OCI_PRESENT] = "already present",
	[OCI_DONE] = "done",
};

_Static_assert(ARRAY_SIZE(state_names) == OCI_DONE + 1, "a state has no name");

static bool progress_ended(const struct oci_layer *l)
{
	return l->state == OCI_PRESENT || l->state == OCI_DONE;
}

/* Return whether bytes of it go over the network. */
static bool progress_moves(const struct oci_layer *l)
{
	return l->state == OCI_DOWNLOADING || l->state == OCI_UPLOADING;
}

void progress_init(struct progress *p, bool quiet)
{
	const char *term = getenv("TERM");

	*p = (struct progress){ .quiet = quiet };
	p->terminal = isatty(STDERR_FILENO) == 1 && term && strcmp(term, "dumb") != 0;
}

void progress_done(struct progress *p)
{
	free(p->seen);
	*p = (struct progress){ .quiet = true };
}

/* ------------------------------------------------------------- output as plain lines */

static void progress_tell(struct progress_layer *seen, const struct oci_layer *l)
{
	char line[LINE_MAX_LEN], size[HUMAN_MAX] = "";
	bool sized = progress_moves(l) && l->size > 0;
	int n;

	if ((seen->told && seen->state == l->state) || l->state == OCI_WAITING)
		return;
	seen->told = true;
	n = snprintf(line, sizeof(line), "%.12s: %s%s%s\n", l->digest + 7,
		     state_names[l->state], sized ? " " : "",
		     sized ? human_size(l->size, size) : "");
	(void)fd_write_all(STDERR_FILENO, line, (size_t)n);
}

/* -------------------------------------------------------------- output on a terminal */

static void progress_measure(struct progress_layer *seen, const struct oci_layer *l,
			     uint64_t now)
{
	double speed;

	if (seen->since == 0 || seen->state != l->state || l->done < seen->bytes) {
		seen->since = now;
		seen->bytes = l->done;
		seen->speed = 0;
		return;
	}
	if (now - seen->since < SPEED_NS)
		return;
	speed = (double)(l->done - seen->bytes) * 1e9 / (double)(now - seen->since);
	seen->speed = seen->speed > 0 ? (seen->speed + speed) / 2 : speed;
	seen->since = now;
	seen->bytes = l->done;
}

static void put_bar(struct buf *line, unsigned percent, size_t width)
{
	size_t full = width * percent / 100;

	buf_puts(line, " [");
	for (size_t i = 0; i < width; i++)
		buf_puts(line, i < full ? "=" : i == full ? ">" : " ");
	buf_puts(line, "]");
}

/* Write one line of at most @columns - 1 characters, so that no terminal wraps it. */
static void progress_put_layer(struct buf *screen, const struct oci_layer *l,
			       const struct progress_layer *seen, size_t columns)
{
	AUTO_BUF struct buf line = BUF_INIT(1024);
	char done[HUMAN_MAX], size[HUMAN_MAX], speed[HUMAN_MAX];
	size_t bar = columns > NARROW ? columns - NARROW : 0;

	buf_printf(&line, "%.12s: %-12s", l->digest + 7, state_names[l->state]);
	if (l->size > 0 && (progress_moves(l) || l->state == OCI_UNPACKING) &&
	    l->done <= l->size) {
		unsigned percent = (unsigned)((double)l->done * 100 / (double)l->size);

		if (bar >= 8)
			put_bar(&line, percent, bar < BAR_MAX ? bar : BAR_MAX);
		buf_printf(&line, " %7s/%s %3u%%", human_size(l->done, done),
			   human_size(l->size, size), percent);
		if (progress_moves(l) && seen->speed >= 1)
			buf_printf(&line, " %s/s",
				   human_size((uint64_t)seen->speed, speed));
	}
	if (line.len >= columns)
		line.len = columns - 1;
	buf_add(screen, line.data, line.len);
	buf_puts(screen, "\033[K\n");
}

static void screen_size(size_t *rows, size_t *columns)
{
	struct winsize ws = { 0 };

	(void)ioctl(STDERR_FILENO, TIOCGWINSZ, &ws);
	*rows = ws.ws_row ? ws.ws_row : 24;
	*columns = ws.ws_col ? ws.ws_col : 80;
}

/* If there are more layers than rows, show active ones, waiting ones, and a count. */
static size_t put_some(struct progress *p, struct buf *screen,
		       const struct oci_layer *layers, size_t rows, size_t columns)
{
	size_t n_ended = 0, lines = 0;

	for (size_t i = 0; i < p->n; i++)
		n_ended += progress_ended(&layers[i]);
	for (int waiting = 0; waiting < 2; waiting++) {
		for (size_t i = 0; i < p->n && lines + 2 < rows; i++) {
			if (progress_ended(&layers[i]) ||
			    (layers[i].state == OCI_WAITING) != waiting)
				continue;
			progress_put_layer(screen, &layers[i], &p->seen[i], columns);
			lines++;
		}
	}
	buf_printf(screen, "%zu of %zu layers\033[K\n", n_ended, p->n);
	return lines + 1;
}

static void progress_draw(struct progress *p, const struct oci_layer *layers)
{
	AUTO_BUF struct buf screen = BUF_INIT(SCREEN_MAX);
	size_t rows, columns;

	screen_size(&rows, &columns);
	if (p->drawn > 0)
		buf_printf(&screen, "\033[%zuA", p->drawn);
	if (p->n < rows) {
		for (size_t i = 0; i < p->n; i++)
			progress_put_layer(&screen, &layers[i], &p->seen[i], columns);
		p->drawn = p->n;
	} else {
		p->drawn = put_some(p, &screen, layers, rows, columns);
	}
	buf_puts(&screen, "\033[J"); /* clear old lines that are no longer used */
	if (!screen.failed)
		(void)fd_write_all(STDERR_FILENO, screen.data, screen.len);
}

int progress_show(void *ctx, const struct oci_layer *layers, size_t n)
{
	struct progress *p = ctx;
	uint64_t now = clock_now();

	if (report_wanted()) {
		int r = report_layers(layers, n);

		return r ? r : cancel_signal();
	}
	if (p->quiet || n == 0)
		return cancel_signal();
	if (n != p->n) { /* this is the next image of an archive */
		free(p->seen);
		p->seen = calloc(n, sizeof(*p->seen));
		p->n = p->seen ? n : 0;
		p->drawn = 0;
		if (!p->seen)
			return cancel_signal();
	}
	for (size_t i = 0; i < n; i++) {
		if (p->terminal)
			progress_measure(&p->seen[i], &layers[i], now);
		else
			progress_tell(&p->seen[i], &layers[i]);
		p->seen[i].state = layers[i].state;
	}
	if (p->terminal)
		progress_draw(p, layers);
	return cancel_signal();
}
