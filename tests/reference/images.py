#!/usr/bin/env python3
"""images.py: writes images/*.jpg, images/*.png and images.values: what Pillow 12 makes of them, a case a line:

    FILE CHANNELS STAGES WIDTH HEIGHT BYTES-IN-HEX

CHANNELS: 3, 1, 4, or 0 for the numbers of a palette. STAGES: '-', or steps joined by commas: 'resize:N' (the shorter
side), 'size:WxH', 'center:WxH' (torchvision's CenterCrop, written out below), 'box:X.Y.WxH' (that part of the picture)."""
import struct, zlib
from pathlib import Path
import numpy as np
from PIL import Image

here = Path(__file__).parent
folder = here / "images"
folder.mkdir(exist_ok=True)
lines = []


def picture(width, height, channels, deep=False):
    """a smooth part, an edge, and some noise from a formula"""
    y, x, c = np.mgrid[0:height, 0:width, 0:channels]
    v = 96 + 70 * np.sin(0.21 * x + 0.9 * c) * np.cos(0.17 * y - c) + 60 * ((x + 2 * y) % 23 < 7)
    v = v + ((x * 7919 + y * 104729 + c * 1299709 + x * y * 31) % 61) - 30
    return np.clip(v * (257 if deep else 1), 0, 65535 if deep else 255).astype(np.uint16 if deep else np.uint8)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def write_png(name, pixels, colour, interlaced=False, extra=b""):
    """8 or 16 bits, without filters; what Pillow does not write: 16-bit colours, Adam7"""
    height, width = pixels.shape[:2]
    deep = pixels.dtype == np.uint16
    passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)] if interlaced else [(0, 0, 1, 1)]
    raw = b""
    for x, y, dx, dy in passes:
        part = pixels[y::dy, x::dx]
        for row in part if part.shape[1] else []:
            raw += b"\0" + row.astype(">u2" if deep else "u1").tobytes()
    head = struct.pack(">IIBBBBB", width, height, 16 if deep else 8, colour, 0, 0, int(interlaced))
    (folder / name).write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + extra + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b""))


def save(name, array, mode, **options):
    Image.frombytes(mode, (array.shape[1], array.shape[0]), array.tobytes()).save(folder / name, **options)


def center_crop(image, width, height):
    w, h = image.size
    if w < width or h < height:
        left, top = max(width - w, 0) // 2, max(height - h, 0) // 2
        padded = Image.new(image.mode, (max(w, width), max(h, height)))
        padded.paste(image, (left, top))
        image, (w, h) = padded, padded.size
    x, y = round((w - width) / 2), round((h - height) / 2)
    return image.crop((x, y, x + width, y + height))


def put(name, channels, stages="-"):
    image = Image.open(folder / name)
    if channels:
        image = image.convert({1: "L", 3: "RGB", 4: "RGBA"}[channels])
    nearest = channels == 0
    for step in stages.split(",") if stages != "-" else []:
        kind, _, rest = step.partition(":")
        if kind == "resize":
            n, (w, h) = int(rest), image.size
            size = (n, int(n * h / w)) if w <= h else (int(n * w / h), n)
        elif kind == "size":
            size = tuple(map(int, rest.split("x")))
        elif kind == "center":
            image = center_crop(image, *map(int, rest.split("x")))
            continue
        else:
            x, y, w, h = map(int, rest.replace("x", ".").split("."))
            image = image.crop((x, y, x + w, y + h))
            continue
        image = image.resize(size, Image.NEAREST if nearest else Image.BILINEAR)
    lines.append(f"{name} {channels} {stages} {image.width} {image.height} {np.asarray(image).astype(np.uint8).tobytes().hex()}")


save("colour.jpg", picture(23, 17, 3), "RGB", quality=80, subsampling=2)
save("full.jpg", picture(16, 9, 3), "RGB", quality=90, subsampling=0)
save("grey.jpg", picture(13, 19, 1), "L", quality=75)
save("ink.jpg", picture(18, 11, 4), "CMYK", quality=85)
save("progressive.jpg", picture(25, 21, 3), "RGB", quality=70, progressive=True)
turned = Image.Exif()
turned[0x112] = 6
save("turned.jpg", picture(21, 12, 3), "RGB", quality=80, exif=turned)
save("colour.png", picture(19, 14, 3), "RGB")
save("alpha.png", picture(15, 11, 4), "RGBA")
save("grey.png", picture(12, 15, 1), "L")
save("grey_alpha.png", picture(11, 12, 2), "LA")
Image.fromarray(picture(20, 9, 1).squeeze() > 100).save(folder / "bits.png")
palette = Image.frombytes("P", (17, 13), (picture(17, 13, 1) // 16).tobytes())
palette.putpalette([(37 * i + 11 * c) % 256 for i in range(16) for c in range(3)])
palette.save(folder / "palette.png", transparency=3)
write_png("deep.png", picture(10, 9, 3, deep=True), 2)
write_png("woven.png", picture(19, 21, 3), 2, interlaced=True)
write_png("gamma.png", picture(9, 8, 3), 2, extra=chunk(b"gAMA", struct.pack(">I", 100000)))

for name in ["colour.jpg", "full.jpg", "grey.jpg", "ink.jpg", "progressive.jpg", "turned.jpg", "colour.png", "alpha.png", "grey.png",
             "grey_alpha.png", "bits.png", "palette.png", "deep.png", "woven.png", "gamma.png"]:
    put(name, 3)
for name in ["colour.jpg", "grey.jpg", "ink.jpg", "colour.png", "grey.png", "bits.png", "palette.png", "grey_alpha.png"]:
    put(name, 1)
for name in ["colour.jpg", "alpha.png", "palette.png", "grey.png", "grey_alpha.png"]:
    put(name, 4)
put("palette.png", 0)
put("grey.png", 0)
for stages in ["resize:7", "resize:17", "resize:29", "size:23x5", "size:5x17", "size:64x3", "size:1x1", "center:8x8", "center:9x9", "center:30x7",
               "center:27x20", "resize:11,center:9x9", "resize:20,center:12x17", "box:3.2.15x11,size:8x8", "box:5.4.6x6,size:16x16", "size:23x17"]:
    put("colour.png" if "box" not in stages else "colour.jpg", 3, stages)
put("grey.png", 1, "resize:5")
put("grey.png", 1, "resize:31")
put("alpha.png", 4, "size:6x7")
for stages in ["resize:5", "resize:29", "size:15x4", "size:4x11", "size:15x11", "size:64x3", "size:1x1", "resize:20,center:9x12", "center:30x20,resize:8",
               "box:3.2.9x8,size:8x8", "size:23x7,size:6x13"]:
    put("alpha.png", 4, stages)
put("palette.png", 4, "size:9x11")
put("grey_alpha.png", 4, "size:16x5")
put("grey_alpha.png", 3, "size:16x5")
put("palette.png", 0, "resize:6")
put("palette.png", 0, "size:40x29")
put("woven.png", 3, "size:13x4,size:9x17")
(here / "images.values").write_text("\n".join(lines) + "\n")
