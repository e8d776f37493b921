#!/usr/bin/env python3
"""decode.py DIR [SECONDS]: what decode.c measures, by Pillow with torchvision's rules (one thread)."""
import io, math, random, sys, time
from pathlib import Path
from PIL import Image

seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 3
files = [p.read_bytes() for p in sorted(Path(sys.argv[1]).glob("*/*")) if p.suffix in (".jpg", ".jpeg", ".png")]
rng = random.Random(1)


def whole(image):
    w, h = image.size
    image = image.resize((256, int(256 * h / w)) if w <= h else (int(256 * w / h), 256), Image.BILINEAR)
    x, y = round((image.width - 224) / 2), round((image.height - 224) / 2)
    return image.crop((x, y, x + 224, y + 224))


def part(image):
    for _ in range(10):
        area = image.width * image.height * rng.uniform(0.08, 1)
        ratio = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= image.width and 0 < h <= image.height:
            x, y = rng.randint(0, image.width - w), rng.randint(0, image.height - h)
            return image.crop((x, y, x + w, y + h)).resize((224, 224), Image.BILINEAR)
    return whole(image)


for name, stage in [("decode", lambda i: i.load()), ("decode, resize(256), center_crop(224)", whole), ("decode, random_resized_crop(224)", part)]:
    done, begin = 0, time.process_time()
    while time.process_time() - begin < seconds:
        for f in files:
            stage(Image.open(io.BytesIO(f)).convert("RGB"))
        done += len(files)
    print(f"{name:40} {done / (time.process_time() - begin):8.1f} pictures/s")
