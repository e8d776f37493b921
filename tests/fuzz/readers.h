/* readers.h: the runtime's readers of files as targets. Apart from targets.c, because compiler and runtime have types of
 * the same names. A reader of data sets is a few variants of inputs and data blocks that use it. */
#ifndef MGPU_FUZZ_READERS_H
#define MGPU_FUZZ_READERS_H

#include <stddef.h>
#include <stdint.h>

void run_safetensors(const uint8_t *data, size_t length);
void run_rules(const uint8_t *data, size_t length);
void run_json(const uint8_t *data, size_t length);
void run_idx(const uint8_t *data, size_t length);
void run_npy(const uint8_t *data, size_t length);
void run_csv(const uint8_t *data, size_t length);
void run_tokens(const uint8_t *data, size_t length);
void run_picture(const uint8_t *data, size_t length);
void run_characters(const uint8_t *data, size_t length);
void run_categories(const uint8_t *data, size_t length);
void follow_log(const char *path); /* `./train watch` */
extern const char *const SAFETENSORS_WORDS[], *const JSON_WORDS[], *const NPY_WORDS[], *const CSV_WORDS[];

/* ---- views.c: what people look at */
void run_view(const uint8_t *data, size_t length);
void run_log(const uint8_t *data, size_t length);

/* ---- reader_folders.c: readers of folders */
void run_cifar(const uint8_t *data, size_t length);
void run_text(const uint8_t *data, size_t length);
void run_images(const uint8_t *data, size_t length);
extern const char *const TEXT_WORDS[], *const IMAGES_WORDS[];
#endif
