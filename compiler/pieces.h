/* pieces.h: from C texts to a program: what the files of the stage `link` share.
 *
 *   pieces.c    Program -> pieces: texts that a C compiler takes one by one, in any order and at the same time
 *   tools.c     the C compiler: what it is, its flags, running it
 *   cache.c     objects by the content that they were compiled from
 *   link.c      the stage
 */
#ifndef MGPU_PIECES_H
#define MGPU_PIECES_H

#include "compiler/command.h"
#include "compiler/sha256.h"

/* ---- emit_program.c: tables; `emit_program` writes all of them as one text */
void emit_tables_head(const Program *, Text *);
void emit_plan(const Program *, const Plan *, Text *);
void emit_main(const Program *, Text *);            /* needs mgpu_kernels, and the names that emit_plan exports */

/* ---- pieces.c */
typedef struct Piece {
    Text text;
    bool kernels;       /* compiled with the kernels' flags */
    double cost;        /* a guess: seconds of the C compiler */
} Piece;
void make_pieces(const Program *, Piece **, int *count);

/* ---- tools.c */
typedef struct Arguments { const char **list; int count; } Arguments;
void add_argument(Arguments *, const char *);
void add_arguments(Arguments *, const Arguments *);
typedef struct Compiler {
    Arguments words;                      /* of CC, which may hold flags: "gcc -fsanitize=address" */
    Arguments kernel_flags, table_flags;
    const char *include;                  /* the flag that names the headers' folder */
    Digest identity;                      /* all that objects depend on besides their texts and flags */
} Compiler;
/* `home` is the folder of the runtime library and of its headers. Exit 3 if there is no C compiler. */
Compiler find_compiler(const char *cc, const char *home);
/* runs them, the first ones first, so many at a time; stops at the first that fails: its number, else -1 */
int run_tools(const Arguments *, int count, int at_a_time);
int cores_available(void);

/* ---- cache.c: every failure of it is a miss */
typedef struct Cache {
    const char *folder; /* NULL: off */
    const char *trouble;/* why it is off, or does not work */
    int64_t limit, stored; /* bytes */
} Cache;
Cache cache_open(void);
bool cache_fetch(Cache *, const Digest *key, const char *path);  /* writes the object to `path`; false: it is not there */
void cache_store(Cache *, const Digest *key, const char *path);
void cache_close(Cache *);                          /* if there is too much, what was used longest ago goes */
#endif
