/* line.c: which record is being checked, so that the line of a refused one can be named. */
#include "compiler/verify/proof.h"
#include "compiler/verify/verify.h"

static int looked_at;

void look_at(int text_line) { looked_at = text_line; }
int verify_line(void) { return looked_at; }
