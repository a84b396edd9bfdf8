/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keys.h - read answers from the terminal
 *
 * An answer is a line: a stray byte is not one. What the terminal itself sends
 * (keys without a character, the mouse, answers to questions) is skipped as a whole, and
 * so is text that is pasted.
 * Keys that were typed before the first question are dropped: they were meant for the
 * program that ran until then.
 */
#ifndef CLI_WORK_KEYS_H
#define CLI_WORK_KEYS_H

#include <stdbool.h>
#include <stddef.h>

/* Instead of a key: the terminal ended, or ^C, ^D or a signal arrived. */
#define KEYS_END (-1)
/* Instead of a key: an empty line, or more than one character. */
#define KEYS_NONE  0
#define KEYS_OTHER 1
/* Instead of a key: a word that was asked for. */
#define KEYS_WORD 2

/* Return whether a person can be asked: stdin and stdout are a terminal. */
bool keys_possible(void);
/*
 * Change the mode of the terminal, and let signals end questions instead of the process;
 * false: it is not a terminal. Calls may be nested.
 */
bool keys_begin(void);
/* Restore the terminal and the signals, at the end of the outermost call. */
void keys_end(void);
/*
 * Reset what a program may have changed in the terminal so that later output looks like
 * something else: colors, modes, character sets, margins. Does nothing if it is not a
 * terminal.
 */
void keys_reset_terminal(void);
/*
 * After a program that may have changed the terminal's modes, and asked it questions:
 * reset the modes, and drop all input until the terminal has answered.
 */
void keys_settle(void);
/* Wait for a line of one character, and return that. */
int keys_read(void);
/* The same; KEYS_WORD: the line is @word, unless that is empty. */
int keys_read_or(const char *word);
/* Read a line, and show it; false: KEYS_END. */
bool keys_read_line(char *line, size_t size);
/* The signal that ended the last review; 0: none. */
int keys_signal(void);
/* Restore the terminal while another program uses it. */
void keys_pause(void);
void keys_continue(void);

#endif /* CLI_WORK_KEYS_H */
