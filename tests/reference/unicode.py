#!/usr/bin/env python3
"""Writes runtime/data/unicode.h: which characters are letters and numbers (the general categories L and N of Unicode)."""
import os
import sys
import unicodedata


def ranges(category):
    inside = [unicodedata.category(chr(c))[0] == category for c in range(sys.maxunicode + 1)] + [False]
    begin = None
    for c, is_in in enumerate(inside):
        if is_in and begin is None:
            begin = c
        elif not is_in and begin is not None:
            yield begin, c - 1
            begin = None


out = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../runtime/unicode.h")
with open(out, "w") as f:
    print("/* unicode.h: letters and numbers (general categories L and N) of Unicode %s beyond ASCII: first and last of each range." %
          unicodedata.unidata_version, file=f)
    print(" * Written by tests/reference/unicode.py. */", file=f)
    print("#ifndef MGPU_UNICODE_H\n#define MGPU_UNICODE_H\n\n#include <stdint.h>", file=f)
    for name, category in ("LETTERS", "L"), ("NUMBERS", "N"):
        print("\nstatic const uint32_t %s[][2] = {" % name, file=f)
        line = "   "
        for begin, end in ranges(category):
            if end < 128:
                continue
            item = " {0x%x, 0x%x}," % (begin, end)
            if len(line + item) > 128:
                print(line, file=f)
                line = "   "
            line += item
        print(line + "\n};", file=f)
    print("#endif", file=f)
