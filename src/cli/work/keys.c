/* SPDX-License-Identifier: Apache-2.0 */
/* keys.c - a terminal without echo and line editing, and how it is always restored */
#include "cli/work/keys.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/macro.h"

enum {
	CONTROL_D = 4,
	BELL = 7,
	CONTROL_U = 21,
	CANCEL = 24,
	SUBSTITUTE = 26,
	ESCAPE = 27,
	C1_ST = 0x9c,
	SEQUENCE_MS = 500,   /* for the next byte of a sequence */
	PASTE_MS = 2000,     /* for the next byte of pasted text */
	SETTLE_MS = 1000,    /* for the terminal's answer */
	QUIET_MS = 100,      /* after it */
	SETTLE_MAX_MS = 5000 /* if the terminal never stops sending */
};

/* Signals that end the review; SIGCONT only changes the terminal's mode again. */
static const int keys_signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCONT };

static struct {
	struct termios was;
	struct sigaction actions[ARRAY_SIZE(keys_signals)];
	unsigned active; /* calls of keys_begin() */
	bool paused;
	bool clever;   /* the terminal understands sequences */
	bool answered; /* the question of keys_settle() */
	int column;    /* of the cursor, from 1; 0: the terminal has not said it */
} keys;

static volatile sig_atomic_t keys_ended; /* the signal that ended the review; or 0 */

static bool keys_is_clever(void)
{
	const char *term = getenv("TERM");

	return term && *term && strcmp(term, "dumb") != 0 && isatty(STDOUT_FILENO);
}

static void keys_send(const char *sequences)
{
	for (size_t n = strlen(sequences); n > 0;) {
		ssize_t sent = write(STDOUT_FILENO, sequences, n);

		if (sent < 0)
			return;
		sequences += sent;
		n -= (size_t)sent;
	}
}

/* Let the terminal mark pasted text: it is not an answer, whatever it contains. */
static void keys_mark_pastes(bool on)
{
	if (keys.clever)
		keys_send(on ? "\033[?2004h" : "\033[?2004l");
}

static void keys_mode(void)
{
	struct termios raw = keys.was;

	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
}

static void keys_on_signal(int sig)
{
	int saved = errno;

	/* tcsetattr(3) may be called here; bash changes the mode while we are stopped. */
	if (sig != SIGCONT) {
		keys_ended = sig;
	} else if (!keys.paused) {
		keys_mode();
		keys_mark_pastes(true);
	}
	errno = saved;
}

bool keys_possible(void)
{
	return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

bool keys_begin(void)
{
	struct sigaction action = { .sa_handler = keys_on_signal }; /* no SA_RESTART */

	if (keys.active && ++keys.active)
		return true;
	if (!keys_possible() || tcgetattr(STDIN_FILENO, &keys.was) < 0)
		return false;
	keys_ended = 0;
	keys.active = 1;
	keys.paused = false;
	keys.clever = keys_is_clever();
	for (size_t i = 0; i < ARRAY_SIZE(keys_signals); i++)
		(void)sigaction(keys_signals[i], &action, &keys.actions[i]);
	keys_mode();
	(void)fflush(stdout);
	keys_mark_pastes(true);
	(void)tcflush(STDIN_FILENO, TCIFLUSH);
	return true;
}

void keys_end(void)
{
	if (!keys.active || --keys.active)
		return;
	(void)fflush(stdout);
	keys_mark_pastes(false);
	(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &keys.was);
	for (size_t i = 0; i < ARRAY_SIZE(keys_signals); i++)
		(void)sigaction(keys_signals[i], &keys.actions[i], NULL);
}

int keys_signal(void)
{
	return keys_ended;
}

void keys_pause(void)
{
	keys.paused = true;
	(void)fflush(stdout);
	keys_mark_pastes(false);
	(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &keys.was);
}

void keys_continue(void)
{
	keys.paused = false;
	keys_mode();
	keys_mark_pastes(true);
}

/* Wait until there is input, for @ms milliseconds or (-1) forever. */
static bool keys_wait(int ms)
{
	const struct timespec t = { ms / 1000, (ms % 1000) * 1000000L };
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	sigset_t block, was, during;
	bool ready = false;

	(void)sigemptyset(&block);
	for (size_t i = 0; i < ARRAY_SIZE(keys_signals); i++)
		(void)sigaddset(&block, keys_signals[i]);
	(void)sigprocmask(SIG_BLOCK, &block, &was);
	during = was;
	for (size_t i = 0; i < ARRAY_SIZE(keys_signals); i++)
		(void)sigdelset(&during, keys_signals[i]);
	while (!keys_ended) {
		int n = ppoll(&p, 1, ms < 0 ? NULL : &t, &during);

		ready = n > 0;
		if (n >= 0 || errno != EINTR)
			break;
	}
	(void)sigprocmask(SIG_SETMASK, &was, NULL);
	return ready && !keys_ended;
}

/* Read one byte within @ms milliseconds; KEYS_END at the end, or if there was none. */
static int keys_byte(int ms)
{
	unsigned char c;

	return keys_wait(ms) && read(STDIN_FILENO, &c, 1) == 1 ? c : KEYS_END;
}

/* --------------------------------------------------------------- sequences */

/* A key; nothing from a sequence that was skipped. */
struct key {
	int c;         /* the character, if it is ASCII */
	char bytes[4]; /* in UTF-8 */
	size_t n;
};

static void keys_skip_bytes(size_t n)
{
	while (n-- && keys_byte(SEQUENCE_MS) != KEYS_END)
		;
}

/* Read the other bytes of a character that begins with @c; returns how many there are. */
static size_t keys_character(int c, char bytes[4])
{
	size_t n = c < 0x80   ? 1
		   : c < 0xc2 ? 0
		   : c < 0xe0 ? 2
		   : c < 0xf0 ? 3
		   : c < 0xf5 ? 4
			      : 0;

	bytes[0] = (char)c;
	for (size_t i = 1; i < n; i++) {
		int next = keys_byte(SEQUENCE_MS);

		if (next == KEYS_END)
			return 0;
		bytes[i] = (char)next;
	}
	return n;
}

/* The control character of the range from 0x80 that @bytes are, or 0. */
static int keys_c1(int c, const char bytes[4], size_t n)
{
	int low = n == 2 ? (unsigned char)bytes[1] : 0;

	if (n == 0 && c >= 0x80 && c < 0xa0)
		return c;
	return c == 0xc2 && low >= 0x80 && low < 0xa0 ? low : 0;
}

/* Skip text that is pasted, up to the sequence that marks its end. */
static void keys_skip_paste(void)
{
	static const char end[] = "\033[201~";
	size_t seen = 0;

	while (end[seen]) {
		int c = keys_byte(PASTE_MS);

		if (c == KEYS_END)
			return;
		seen = c == end[seen] ? seen + 1 : c == end[0];
	}
}

/* After CSI: parameters and the last byte. X10's reports of the mouse have 3 more. */
static int keys_skip_csi(void)
{
	char text[8] = "";
	size_t n = 0;
	int c;

	while ((c = keys_byte(SEQUENCE_MS)) >= 0x20 && c < 0x40) {
		if (n < sizeof(text) - 1)
			text[n] = (char)c;
		n++;
	}
	if (c == ESCAPE)
		return c;
	if (c == 'n' && n == 1 && (text[0] == '0' || text[0] == '3'))
		keys.answered = true;
	if (c == 'R' && n < sizeof(text) && strchr(text, ';'))
		keys.column = atoi(strchr(text, ';') + 1);
	if (c == '~' && n == 3 && memcmp(text, "200", 3) == 0)
		keys_skip_paste();
	if (n == 0)
		keys_skip_bytes(c == 'M' ? 3 : c == 't' ? 2 : c == 'T' ? 6 : c == '[');
	return 0;
}

/* A string, such as an answer about colors or a title: it ends with ST or BEL. */
static int keys_skip_string(void)
{
	char bytes[4];

	for (;;) {
		int c = keys_byte(SEQUENCE_MS);
		size_t n = c == KEYS_END ? 0 : keys_character(c, bytes);

		if (c == KEYS_END || c == BELL || c == CANCEL || c == SUBSTITUTE ||
		    keys_c1(c, bytes, n) == C1_ST)
			return 0;
		if (c == ESCAPE) {
			c = keys_byte(SEQUENCE_MS);
			return c == '\\' || c == KEYS_END ? 0 : -c;
		}
	}
}

/* Skip a sequence after ESC and @c. Returns the byte with which another one begins. */
static int keys_skip_after(int c)
{
	switch (c) {
	case '[':
		return keys_skip_csi();
	case 'O':
	case 'N':
		while ((c = keys_byte(SEQUENCE_MS)) >= '0' && c <= ';')
			;
		return c == ESCAPE ? c : 0;
	case 'P':
	case 'X':
	case ']':
	case '^':
	case '_':
		return keys_skip_string();
	default:
		break;
	}
	while (c >= 0x20 && c < 0x30)
		c = keys_byte(SEQUENCE_MS);
	if (c >= 0xc2) {
		char bytes[4];

		(void)keys_character(c, bytes);
	}
	return c == ESCAPE ? c : 0;
}

/* Skip what an arrow key, the mouse, or the terminal itself sends after ESC. */
static void keys_skip_sequence(int after)
{
	while (after) {
		int c = after == ESCAPE ? keys_byte(SEQUENCE_MS)
			: after < 0     ? -after
					: after;

		if (c == KEYS_END)
			return;
		after = keys_skip_after(c);
	}
}

/* Read a character or a sequence. false: KEYS_END, or nothing within @ms. */
static bool keys_next(int ms, struct key *ret)
{
	int c = keys_byte(ms), c1;

	*ret = (struct key){ 0 };
	if (c == KEYS_END)
		return false;
	if (c == ESCAPE) {
		keys_skip_sequence(ESCAPE);
		return true;
	}
	ret->n = keys_character(c, ret->bytes);
	c1 = keys_c1(c, ret->bytes, ret->n);
	if (c1) {
		keys_skip_sequence(-(c1 - 0x40));
		ret->n = 0;
	}
	ret->c = c < 0x80 ? c : 0;
	return true;
}

/* ------------------------------------------------------------------ settle */

/*
 * Reset what a program may have changed so that later output is misleading. In this
 * order: end an incomplete sequence, and VT52 mode; a soft reset; no reports of the
 * mouse, the focus or pastes; the main screen (entered from the other one, because some
 * terminals restore the cursor of that moment in any case), without margins, in its own
 * colors and not reversed; wrap lines, set tab stops, show the cursor; normal keys and
 * character sets. Output that the terminal holds back is shown first.
 */
static const char keys_reset[] =
	"\030\033\\\033<\033[?2026l\033[!p"
	"\033[?9;1000;1001;1002;1003;1004;1005;1006;1007;1015;1016;2004;2031l"
	"\033[?1049h\033[?1049l\033[?1047l"
	"\0337\033[=0;1u\033[?69l\033[r\033[?6l\0338"
	"\033]104\033\\\033]110\033\\\033]111\033\\\033]112\033\\"
	"\033]117\033\\\033]119\033\\\033[?5l"
	"\033[?1;45;66l\033>\033[2;4;20l\033[12h\033[?7h\033[?5W\033[?25h"
	"\033[>4;0m\033(B\033)B\033*B\033+B\017\033[0m";

/* Without images, which could cover text. */
static const char keys_reset_images[] = "\033_Ga=d\033\\";

/* The colors of the console of Linux. */
static const char keys_reset_linux[] = "\033]R\033\\";

/* In another character set, bytes of UTF-8 would be control characters. */
static const char keys_reset_utf8[] = "\033%G";

static bool keys_is_utf8(void)
{
	static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const char *value = getenv(names[i]);

		if (value && *value)
			return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
	}
	return false;
}

void keys_reset_terminal(void)
{
	const char *term = getenv("TERM");

	(void)fflush(stdout);
	if (!keys_is_clever())
		return;
	keys_send(keys_reset);
	keys_send(term && strcmp(term, "linux") == 0 ? keys_reset_linux
						     : keys_reset_images);
	if (keys_is_utf8())
		keys_send(keys_reset_utf8);
}

static int64_t keys_now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void keys_settle(void)
{
	bool clever = keys_is_clever();
	struct key ignored;
	int ms = clever ? SETTLE_MS : QUIET_MS;

	keys.answered = false;
	keys.column = 0;
	keys_reset_terminal();
	/* Where is the cursor, and is everything up to here done? */
	if (clever)
		keys_send("\033[6n\033[5n");
	/* The sandbox may have asked the same: after the answer, wait for more. */
	for (int64_t end = keys_now_ms() + SETTLE_MAX_MS; keys_now_ms() < end;) {
		if (keys.answered)
			ms = QUIET_MS;
		if (!keys_next(ms, &ignored))
			break;
	}
	/* The output did not end with a line. */
	if (keys.column > 1)
		keys_send("\r\n");
	keys_mark_pastes(true);
}

/* ------------------------------------------------------------------- lines */

static void keys_echo(const char *bytes, size_t n)
{
	(void)fwrite(bytes, 1, n, stdout);
	(void)fflush(stdout);
}

/* Remove the last character of a line. */
static size_t keys_erase(const char *line, size_t n)
{
	if (n == 0)
		return 0;
	while (--n > 0 && ((unsigned char)line[n] & 0xc0) == 0x80)
		;
	keys_echo("\b \b", 3);
	return n;
}

bool keys_read_line(char *line, size_t size)
{
	struct key key;
	size_t n = 0;

	while (keys_next(-1, &key) && !(key.c == CONTROL_D && n == 0)) {
		if (key.c == '\n' || key.c == '\r') {
			line[n] = '\0';
			keys_echo("\n", 1);
			return true;
		}
		if (key.c == 0x7f || key.c == '\b')
			n = keys_erase(line, n);
		while (key.c == CONTROL_U && n > 0)
			n = keys_erase(line, n);
		if (!key.n || (key.n == 1 && (key.c < ' ' || key.c == 0x7f)) ||
		    n + key.n >= size)
			continue;
		(void)memcpy(line + n, key.bytes, key.n);
		n += key.n;
		keys_echo(key.bytes, key.n);
	}
	line[0] = '\0';
	return false;
}

int keys_read_or(const char *word)
{
	char line[80], *key = line;
	size_t n;

	if (!keys_read_line(line, sizeof(line)))
		return KEYS_END;
	key += strspn(key, " ");
	for (n = strlen(key); n > 0 && key[n - 1] == ' '; n--)
		;
	if (n == 0)
		return KEYS_NONE;
	key[n] = '\0';
	if (word[0] && strcmp(key, word) == 0)
		return KEYS_WORD;
	return n == 1 && (unsigned char)*key < 0x7f ? *key : KEYS_OTHER;
}

int keys_read(void)
{
	return keys_read_or("");
}
