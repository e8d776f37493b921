/* hostile.h: names that a model may have, and that emitted text must not take for anything else. */
#ifndef MGPU_FUZZ_HOSTILE_H
#define MGPU_FUZZ_HOSTILE_H

/* words that C, C++, CUDA, their headers or emitted text know; names of the language each, NULL-terminated */
extern const char *const HOSTILE_WORDS[];
/* texts for what is named by a string: all in UTF-8, so that logs and weights have them as they are; NULL-terminated */
extern const char *const HOSTILE_NAMES[];
#endif
