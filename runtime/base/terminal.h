/* terminal.h: what mgpuc and its programs share: the descriptors that they are started with, and text that a terminal shows. */
#ifndef MGPU_TERMINAL_H
#define MGPU_TERMINAL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Opens 0 to 2 where they are closed, so that no file that is opened later gets them: else what is printed would be written into a
 * log, or into weights. As those that are closed, they fail when they are read or written. */
void mgpu_hold_descriptors(void);

/* the columns of the terminal that f is; else those of the variable COLUMNS; 0: neither says */
int mgpu_terminal_columns(FILE *f);

/* the bytes of the character (UTF-8) that the text begins with; 0: it begins with none */
int mgpu_utf8(const char *text, uint32_t *code);

/* the bytes of a character that a terminal would act on, or that would change the order of those beside it; 0: of none */
int mgpu_control(const char *text, uint32_t *code);

/* A copy for a terminal, with \x1b, \x9b and \u202e for control characters, bytes that are no UTF-8, and characters that turn the
 * order of text round; of `lines`, ends of lines and tabs stay. The caller frees; NULL: no memory. */
char *mgpu_plain_text(const char *text, bool lines);

/* As plain text, since parts of a message come from files and folders. Its lines are ours: one may end only where the pattern ends
 * it, or where the pattern is "%s". */
void mgpu_print_message(FILE *to, const char *pattern, va_list arguments) __attribute__((format(printf, 2, 0)));
#endif
