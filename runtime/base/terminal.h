/* terminal.h: the standard descriptors, and text for terminals; used by mgpuc and its programs. */
#ifndef MGPU_TERMINAL_H
#define MGPU_TERMINAL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Opens descriptors 0 to 2 if they are closed, so that no later file gets them: otherwise messages would be written into a log or
 * into weights. Like closed ones, they fail when they are used. */
void mgpu_hold_descriptors(void);

/* Returns the columns of the terminal f, else those of the variable COLUMNS, else 0. */
int mgpu_terminal_columns(FILE *f);

/* Returns the bytes of the UTF-8 character at the text's beginning; 0: it is invalid. */
int mgpu_utf8(const char *text, uint32_t *code);

/* Returns the bytes of a character that a terminal acts on, or that changes the order of its neighbours; 0: it is none. */
int mgpu_control(const char *text, uint32_t *code);

/* Returns a copy for a terminal, with \x1b, \x9b and \u202e for control characters, invalid UTF-8, and characters that change the
 * order of text. lines: ends of lines and tabs are kept. The caller frees it; NULL: no memory. */
char *mgpu_plain_text(const char *text, bool lines);

/* Prints it as plain text, since parts of a message come from files and folders. Line ends are kept only if the pattern has some,
 * or is "%s". */
void mgpu_print_message(FILE *to, const char *pattern, va_list arguments) __attribute__((format(printf, 2, 0)));

/* Prints words in lines of at most `width` columns, each after the margin; lines that continue a later paragraph are indented
 * further. */
void mgpu_print_wrapped(FILE *, const char *text, const char *margin, int width);
#endif
