#!/usr/bin/env python3
"""Writes runtime/data/unicode.h: which characters are letters and numbers (the general categories L and N of Unicode), as the tokenizers
package has them."""
import os
import sys
import tokenizers
from tokenizers import Regex, pre_tokenizers


def members(category):
    split = pre_tokenizers.Split(Regex(r"\p{%s}" % category), "removed")
    for first in range(0, sys.maxunicode + 1, 4096):
        part = [c for c in range(first, first + 4096) if not 0xD800 <= c < 0xE000]
        left = set("".join(text for text, _ in split.pre_tokenize_str("".join(map(chr, part)))))
        yield from (c for c in part if chr(c) not in left)


def ranges(category):
    begin = end = None
    for c in members(category):
        if begin is not None and c != end + 1:
            yield begin, end
            begin = None
        begin, end = c if begin is None else begin, c
    yield begin, end


out = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../runtime/data/unicode.h")
with open(out, "w") as f:
    print("/* unicode.h: letters and numbers (general categories L and N) as the tokenizers package (%s) has them, beyond ASCII: first and" %
          tokenizers.__version__, file=f)
    print(" * last of each range. Written by tests/reference/unicode.py. */", file=f)
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
