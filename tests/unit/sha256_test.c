/* sha256_test.c: the examples of FIPS 180-4 and of NIST's long message; the same text in parts of every length. */
#include "runtime/base/sha256.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

static bool portable; /* not by the CPU's instructions */

static Digest digest_of(const void *bytes, size_t length)
{
    Sha256 h = mgpu_sha256_begin();
    h.x86 = h.x86 && !portable;
    mgpu_sha256_add(&h, bytes, length);
    return mgpu_sha256_end(&h);
}

static void expect(const char *name, Digest d, const char *wanted)
{
    char digits[65];
    bool good = strcmp(mgpu_digest_text(&d, 32, digits), wanted) == 0;
    const char *way = portable ? ", portable" : "";
    printf(good ? "ok %s%s\n" : "not ok %s%s: %s\n", name, way, digits);
    failures += !good;
}

static int examples(void)
{
    static const char TWO_BLOCKS[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    expect("no text", digest_of("", 0), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect("one block", digest_of("abc", 3), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    expect("two blocks", digest_of(TWO_BLOCKS, strlen(TWO_BLOCKS)),
           "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    size_t length = 1000000;
    char *text = malloc(length);
    if (!text)
        return 1;
    memset(text, 'a', length);
    expect("a million letters", digest_of(text, length), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    for (int i = 0; i < 1000; i++)
        text[i] = (char)(i * 7 + i / 64);
    int different = 0;
    for (size_t whole = 0; whole < 200; whole++) {
        Digest wanted = digest_of(text, whole);
        for (size_t part = 1; part <= whole; part++) {
            Sha256 h = mgpu_sha256_begin();
            h.x86 = h.x86 && !portable;
            for (size_t at = 0; at < whole; at += part)
                mgpu_sha256_add(&h, text + at, whole - at < part ? whole - at : part);
            Digest d = mgpu_sha256_end(&h);
            different += memcmp(&d, &wanted, sizeof d) != 0;
        }
    }
    const char *way = portable ? ", portable" : "";
    printf(different ? "not ok in parts%s: %d differ\n" : "ok in parts%s\n", way, different);
    free(text);
    return failures || different;
}

int main(void)
{
    int failed = 0;
    for (int i = 0; i < 2; i++) {
        portable = i;
        failed += examples();
    }
    return failed != 0;
}
