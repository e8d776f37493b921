/* utf8.c: bytes -> code points. */
#include "runtime/data/data.h"

int mgpu_decode_utf8(const uint8_t *text, int64_t bytes, int64_t i, uint32_t *code)
{
    static const uint32_t LEAST[] = {0, 0, 0x80, 0x800, 0x10000};
    uint8_t c = text[i];
    int length = c < 0x80 ? 1 : c < 0xC0 ? 0 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF8 ? 4 : 0;
    if (length == 0 || i + length > bytes)
        return 0;
    *code = length == 1 ? c : c & (0x7Fu >> length);
    for (int k = 1; k < length; k++) {
        if ((text[i + k] & 0xC0) != 0x80)
            return 0;
        *code = *code << 6 | (text[i + k] & 0x3F);
    }
    return *code >= LEAST[length] && *code < 0x110000 && (*code < 0xD800 || *code >= 0xE000) ? length : 0;
}
