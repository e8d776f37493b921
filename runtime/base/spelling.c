/* spelling.c: edit distances, and patterns of names. */
#include "runtime/base/spelling.h"

#include <stdbool.h>
#include <string.h>

int mgpu_edit_distance(const char *a, const char *b)
{
    int m = (int)strnlen(a, MGPU_LONGEST_WORD + 1), n = (int)strnlen(b, MGPU_LONGEST_WORD + 1);
    if (m > MGPU_LONGEST_WORD || n > MGPU_LONGEST_WORD)
        return MGPU_LONGEST_WORD;
    int rows[3][MGPU_LONGEST_WORD + 1], *before = rows[0], *last = rows[1], *row = rows[2];
    for (int j = 0; j <= n; j++)
        last[j] = before[j] = j;
    for (int i = 1; i <= m; i++) {
        row[0] = i;
        for (int j = 1; j <= n; j++) {
            int best = last[j - 1] + (a[i - 1] != b[j - 1]);
            best = last[j] + 1 < best ? last[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
        int *oldest = before;
        before = last;
        last = row;
        row = oldest;
    }
    return last[n];
}

const char *mgpu_nearest(const char *word, const char *const *names, int count)
{
    char lower[MGPU_LONGEST_WORD + 1] = "";
    int length = (int)strnlen(word, MGPU_LONGEST_WORD + 1), limit = length < 5 ? 1 : (length + 1) / 3, least = limit + 1;
    const char *best = NULL;
    for (int i = 0; i < length && length <= MGPU_LONGEST_WORD; i++)
        lower[i] = word[i] >= 'A' && word[i] <= 'Z' ? (char)(word[i] - 'A' + 'a') : word[i];
    bool capitals = strncmp(word, lower, sizeof lower) != 0;
    for (int i = 0; i < count && length <= MGPU_LONGEST_WORD; i++) {
        int d = mgpu_edit_distance(word, names[i]), small = mgpu_edit_distance(lower, names[i]) + capitals;
        d = small < d ? small : d; /* `ReLU` is near `relu` */
        if (d < least && d < (int)strlen(names[i])) {
            least = d;
            best = names[i];
        }
    }
    return best;
}

static bool matches(const char *pattern, const char *pattern_end, const char *text, const char *end)
{
    const char *star = NULL, *retry = NULL;
    while (text < end) {
        if (pattern < pattern_end && *pattern == '*') {
            star = ++pattern;
            retry = text;
        } else if (pattern < pattern_end && (*pattern == '?' || *pattern == *text)) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star;
            text = ++retry;
        } else {
            return false;
        }
    }
    while (pattern < pattern_end && *pattern == '*')
        pattern++;
    return pattern == pattern_end;
}

int mgpu_pattern_match(const char *pattern, ptrdiff_t length, const char *name)
{
    for (const char *end = name;; end++) {
        if ((*end == '.' || !*end) && matches(pattern, pattern + length, name, end))
            return (int)(end - name);
        if (!*end)
            return -1;
    }
}
