/* schedule_words.c: characters -> words, names and numbers of a schedule's text. */
#include "compiler/plan/schedule_words.h"
#include "compiler/base/words.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

Place schedule_place(const Reader *r)
{
    return (Place){.source = r->source, .line = r->line, .column = (int)(r->at - r->line_start) + 1};
}

void schedule_error(const Reader *r, const char *pattern, ...)
{
    Place at = schedule_place(r);
    va_list arguments;
    va_start(arguments, pattern);
    verror_at(&at, pattern, arguments);
}

void schedule_skip_blanks(Reader *r)
{
    while (*r->at == ' ' || *r->at == '\t' || *r->at == '\r')
        r->at++;
}

/* to the first word of the next record; false: there is none */
bool schedule_next_record(Reader *r)
{
    for (;;) {
        schedule_skip_blanks(r);
        if (*r->at == '#')
            while (*r->at && *r->at != '\n')
                r->at++;
        if (*r->at != '\n')
            return *r->at != 0;
        r->line++;
        r->line_start = ++r->at;
    }
}

void schedule_end_record(Reader *r)
{
    schedule_skip_blanks(r);
    if (*r->at == '#')
        while (*r->at && *r->at != '\n')
            r->at++;
    if (*r->at && *r->at != '\n')
        schedule_error(r, "the record ends here; there is more on the line");
}

bool schedule_take(Reader *r, const char *text) /* these characters */
{
    size_t length = strlen(text);
    if (strncmp(r->at, text, length) != 0)
        return false;
    r->at += length;
    return true;
}

bool schedule_at_word(const Reader *r, const char *word)
{
    size_t length = strlen(word);
    return strncmp(r->at, word, length) == 0 && !is_bare(r->at[length]);
}

bool schedule_take_word(Reader *r, const char *word)
{
    schedule_skip_blanks(r);
    return schedule_at_word(r, word) && schedule_take(r, word);
}

void schedule_need_word(Reader *r, const char *word)
{
    if (!schedule_take_word(r, word))
        schedule_error(r, "expected '%s'", word);
}

const char *schedule_read_quoted(Reader *r)
{
    Text t = {0};
    if (!schedule_take(r, "\""))
        schedule_error(r, "expected a text in quotes");
    while (*r->at != '"') {
        char c = *r->at;
        if (!c || c == '\n')
            schedule_error(r, "the text is not closed: a '\"' is missing");
        if (c == '\\' && (r->at[1] == '"' || r->at[1] == '\\')) {
            c = r->at[1];
            r->at++;
        } else if (c == '\\' && r->at[1] == 'x' && hex_digit(r->at[2]) >= 0 && hex_digit(r->at[3]) >= 0) {
            int code = 16 * hex_digit(r->at[2]) + hex_digit(r->at[3]);
            if (!code)
                schedule_error(r, "a text cannot hold the character \\x00");
            c = (char)code;
            r->at += 3;
        } else if (c == '\\') {
            schedule_error(r, "after '\\' follows '\"', '\\' or x and two hexadecimal digits");
        }
        text_bytes(&t, &c, 1);
        r->at++;
    }
    r->at++;
    const char *text = copy_text(text_of(&t), t.length);
    free(t.data);
    return text;
}

const char *schedule_read_name(Reader *r, const char *what)
{
    schedule_skip_blanks(r);
    if (*r->at == '"')
        return schedule_read_quoted(r);
    const char *begin = r->at, *end = begin;
    while (is_bare(*end))
        end++;
    if (end == begin)
        schedule_error(r, "expected %s", what);
    r->at = end;
    return copy_text(begin, (size_t)(end - begin));
}

int64_t schedule_read_number(Reader *r, const char *what, int64_t most)
{
    schedule_skip_blanks(r);
    const char *begin = r->at;
    int64_t n = 0;
    if (!isdigit((unsigned char)*begin))
        schedule_error(r, "expected %s: a whole number", what);
    for (const char *p = begin; isdigit((unsigned char)*p); p++) {
        if (n > (most - (*p - '0')) / 10)
            schedule_error(r, "%s is too large", what);
        n = 10 * n + (*p - '0');
    }
    while (isdigit((unsigned char)*r->at))
        r->at++;
    return n;
}

int schedule_read_int(Reader *r, const char *what) { return (int)schedule_read_number(r, what, INT32_MAX); }
int64_t schedule_read_bytes(Reader *r, const char *what) { return schedule_read_number(r, what, (int64_t)1 << 62); }

uint32_t schedule_read_digest(Reader *r)
{
    schedule_skip_blanks(r);
    uint32_t digest = 0;
    int count = 0;
    for (; hex_digit(r->at[count]) >= 0 && count < 8; count++)
        digest = 16 * digest + (uint32_t)hex_digit(r->at[count]);
    if (count != 8 || is_bare(r->at[8]))
        schedule_error(r, "expected a digest: eight hexadecimal digits");
    r->at += 8;
    return digest;
}

double schedule_read_time(Reader *r, const char *what)
{
    schedule_skip_blanks(r);
    char *end;
    if (!isdigit((unsigned char)*r->at))
        schedule_error(r, "expected %s: a number of microseconds", what);
    double value = strtod(r->at, &end);
    if (!(value < 1e15))
        schedule_error(r, "%s is too large", what);
    r->at = end;
    return value;
}

int schedule_read_choice(Reader *r, const char *what, const char *const *names, int count)
{
    schedule_skip_blanks(r);
    for (int i = 0; i < count; i++)
        if (schedule_at_word(r, names[i])) {
            schedule_take(r, names[i]);
            return i;
        }
    const char *begin = r->at, *end = begin;
    while (is_bare(*end))
        end++;
    const char *word = copy_text(begin, (size_t)(end - begin));
    schedule_error(r, "'%s' is not %s%s", word, what, did_you_mean(word, names, count));
}

Dtype schedule_read_dtype(Reader *r)
{
    const char *names[DTYPES];
    for (int i = 0; i < DTYPES; i++)
        names[i] = dtype_name((Dtype)i);
    return (Dtype)schedule_read_choice(r, "a number type", names, DTYPES);
}
