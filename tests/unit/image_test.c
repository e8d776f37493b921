/* Pictures: decoded, resized and cut as Pillow does it, to the bit (tests/reference/images.py); random windows; files that
 * are damaged. */
#include "runtime/base/base.h"
#include "runtime/data/image/image.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int failed;

static void say(bool good, const char *name, const char *why)
{
    if (good)
        printf("ok %s\n", name);
    else
        printf("not ok %s: %s\n", name, why);
    failed += !good;
    fflush(stdout);
}

typedef struct Bytes {
    uint8_t *data;
    int64_t size;
} Bytes;

/* with nothing after it that could be read unnoticed */
static Bytes read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        mgpu_fail(3, "%s: %s", path, strerror(errno));
    static uint8_t room[1 << 20];
    size_t n = fread(room, 1, sizeof room, f);
    fclose(f);
    Bytes b = {malloc(n ? n : 1), (int64_t)n};
    memcpy(b.data, room, n);
    return b;
}

static Bytes picture_file(const char *name)
{
    char *path = mgpu_format("%s/tests/reference/images/%s", MGPU_SOURCE, name);
    Bytes b = read_file(path);
    free(path);
    return b;
}

/* ---- against stored values */
static int read_stages(char *text, ImageStage *stages, ImageWindow *box)
{
    int count = 0, w, h;
    for (char *step = strtok(text, ","); step; step = strtok(NULL, ",")) {
        ImageStage *s = &stages[count];
        *s = (ImageStage){.name = "test"};
        if (sscanf(step, "resize:%d", &w) == 1)
            s->kind = STAGE_RESIZE, s->width = w, count++;
        else if (sscanf(step, "size:%dx%d", &w, &h) == 2)
            s->kind = STAGE_RESIZE, s->width = w, s->height = h, count++;
        else if (sscanf(step, "center:%dx%d", &w, &h) == 2)
            s->kind = STAGE_CENTER_CROP, s->width = w, s->height = h, count++;
        else if (sscanf(step, "box:%d.%d.%dx%d", &box->x, &box->y, &box->width, &box->height) != 4 && strcmp(step, "-") != 0)
            mgpu_fail(3, "images.values: the stage '%s' is unknown", step);
    }
    return count;
}

static int largest_difference(const Image *image, const char *hex)
{
    int most = 0;
    for (int y = 0; y < image->height; y++)
        for (int64_t i = 0; i < (int64_t)image->width * image->channels; i++, hex += 2) {
            char two[3] = {hex[0], hex[1], 0};
            int difference = abs((int)strtol(two, NULL, 16) - image->pixels[y * image->stride + i]);
            most = difference > most ? difference : most;
        }
    return most;
}

static void compare(Reading *reading, const char *file, int channels, const char *stage_text, int width, int height,
                    const char *hex)
{
    char why[MGPU_IMAGE_WHY] = "", text[200], *name = mgpu_format("%s as %d, %s", file, channels, stage_text);
    ImageStage stages[8];
    ImageWindow box = {0};
    snprintf(text, sizeof text, "%s", stage_text);
    int count = read_stages(text, stages, &box);
    Bytes b = picture_file(file);
    Image image;
    bool good = mgpu_image_decode(reading, b.data, b.size, channels, &image, why);
    if (good && box.width) {
        image.pixels += box.y * image.stride + box.x * image.channels;
        image.width = box.width;
        image.height = box.height;
    }
    good = good &&
           mgpu_image_stages(reading, &image, stages, count, 0, (ImageMeaning){channels == MGPU_IMAGE_LABELS, -1}, &image, why);
    if (good && (image.width != width || image.height != height ||
                 strlen(hex) != 2 * (size_t)width * (size_t)height * (size_t)image.channels)) {
        snprintf(why, sizeof why, "its size is %d x %d x %d", image.width, image.height, image.channels);
        good = false;
    }
    int difference = good ? largest_difference(&image, hex) : 0;
    if (difference) {
        snprintf(why, sizeof why, "a byte differs by %d", difference);
        good = false;
    }
    say(good, name, why);
    mgpu_reading_reset(reading);
    free(b.data);
    free(name);
}

static void stored_values(Reading *reading)
{
    char *path = mgpu_format("%s/tests/reference/images.values", MGPU_SOURCE);
    FILE *f = fopen(path, "r");
    if (!f)
        mgpu_fail(3, "%s: %s", path, strerror(errno));
    static char line[1 << 16], hex[1 << 16];
    char file[100], stages[200];
    int channels, width, height;
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "%99s %d %199s %d %d %65535s", file, &channels, stages, &width, &height, hex) != 6)
            mgpu_fail(3, "%s: a line makes no sense: %.80s", path, line);
        compare(reading, file, channels, stages, width, height, hex);
    }
    fclose(f);
    free(path);
}

/* ---- every instruction set computes the same */
static uint8_t noise(uint32_t i)
{
    i = (i ^ i >> 16) * 0x45d9f3bu;
    return (uint8_t)((i ^ i >> 13) >> 3);
}

static void variants(void)
{
    enum { TAPS = 9, COUNT = 37 };
    for (int channels = 1; channels <= 5; channels++) {
        int size = 64 * channels, first[COUNT], taps[COUNT];
        uint8_t *from = malloc((size_t)size), one[2][COUNT * 5], rows[2][COUNT];
        int32_t weight[COUNT * TAPS];
        for (int i = 0; i < size; i++)
            from[i] = noise((uint32_t)(i + channels));
        for (int x = 0; x < COUNT; x++) {
            taps[x] = 1 + x % TAPS;
            first[x] = x == COUNT - 1 ? 64 - taps[x] : x;
            for (int k = 0; k < TAPS; k++)
                weight[x * TAPS + k] = (1 << 22) / taps[x] + (k % 2 ? 1000 : -1000);
        }
        bool same = true;
        const ImageSums *base = &mgpu_image_sums_base;
        for (int v = 0; mgpu_image_sums_choice(v); v++) {
            const ImageSums *sums = mgpu_image_sums_choice(v);
            const ImageSums *const two[] = {base, sums};
            for (int i = 0; i < 2; i++) {
                memset(one[i], 0, sizeof one[i]);
                two[i]->pixels(from, channels, weight, TAPS, first, taps, COUNT, one[i]);
                two[i]->rows(from, 3, weight + 4 * TAPS, 5, COUNT, rows[i]);
            }
            same = same && memcmp(one[0], one[1], sizeof one[0]) == 0 && memcmp(rows[0], rows[1], sizeof rows[0]) == 0;
        }
        char name[80];
        snprintf(name, sizeof name, "all instruction sets agree, %d channels", channels);
        say(same, name, "they do not");
        free(from);
    }
}

/* ---- random windows */
static Image ramp(uint8_t *pixels, int width, int height) /* red: x, green: y, blue: 7 */
{
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            uint8_t *p = pixels + 3 * (y * width + x);
            p[0] = (uint8_t)x, p[1] = (uint8_t)y, p[2] = 7;
        }
    return (Image){width, height, 3, 3 * width, pixels};
}

static void random_crops(Reading *reading)
{
    static uint8_t pixels[200 * 200 * 3];
    Image from = ramp(pixels, 37, 23), to, again;
    ImageStage crop = {.kind = STAGE_RANDOM_CROP, .name = "1", .width = 30, .height = 20};
    char why[MGPU_IMAGE_WHY] = "";
    int seen[8][4] = {{0}}, places = 0;
    bool good = true;
    for (int64_t sample = 0; sample < 4000; sample++) {
        good = good && mgpu_image_stages(reading, &from, &crop, 1, sample, (ImageMeaning){false, 0}, &to, why);
        int x = to.pixels[0], y = to.pixels[1];
        good = good && to.width == 30 && to.height == 20 && x <= 7 && y <= 3 && to.pixels[19 * to.stride + 29 * 3] == x + 29;
        seen[x & 7][y & 3]++;
        mgpu_reading_reset(reading);
    }
    for (int i = 0; i < 32; i++)
        places += seen[i / 4][i % 4] > 70 && seen[i / 4][i % 4] < 190; /* 125 expected, deviation 11 */
    say(good && places == 32, "random_crop: every place equally often", why);

    mgpu_image_stages(reading, &from, &crop, 1, 77, (ImageMeaning){false, 0}, &to, why);
    mgpu_image_stages(reading, &from, &crop, 1, 77, (ImageMeaning){true, -1}, &again, why);
    bool same = to.pixels == again.pixels;
    bool differs = false;
    for (int epoch = 1; epoch < 9; epoch++) {
        Reading other = {.seed = reading->seed, .epoch = reading->epoch + epoch};
        mgpu_image_stages(&other, &from, &crop, 1, 77, (ImageMeaning){false, 0}, &again, why);
        differs = differs || to.pixels != again.pixels;
        mgpu_reading_close(&other);
    }
    say(same && differs, "random_crop: a function of seed, epoch and sample, the same for a mask", "it is not");
    from = ramp(pixels, 29, 40);
    say(!mgpu_image_stages(reading, &from, &crop, 1, 0, (ImageMeaning){false, 0}, &to, why) &&
            strstr(why, "29 x 40 is smaller") && strstr(why, "resize(30)"),
        "random_crop: too small a picture", why);
    mgpu_reading_reset(reading);
}

static void random_resized(Reading *reading)
{
    static uint8_t pixels[200 * 200 * 3];
    Image from = ramp(pixels, 200, 120), to;
    ImageStage stage = {
        .kind = STAGE_RANDOM_RESIZED_CROP, .name = "0", .width = 16, .height = 16, .scale = {0.1, 0.5}, .ratio = {0.75, 4.0 / 3}};
    char why[MGPU_IMAGE_WHY] = "";
    double area = 0, square = 0, logs = 0;
    bool good = true;
    enum { SAMPLES = 3000 };
    for (int64_t sample = 0; sample < SAMPLES; sample++) {
        good = good && mgpu_image_stages(reading, &from, &stage, 1, sample, (ImageMeaning){false, 0}, &to, why) &&
               to.width == 16 && to.height == 16;
        /* the window is seen from the ramps: their slopes away from the edges are its size / 16 */
        double w = 16.0 * (to.pixels[12 * 3] - to.pixels[3 * 3]) / 9,
               h = 16.0 * (to.pixels[12 * to.stride + 1] - to.pixels[3 * to.stride + 1]) / 9;
        double part = w * h / (200 * 120);
        area += part, square += part * part, logs += log(w / h);
        mgpu_reading_reset(reading);
    }
    double mean = area / SAMPLES, deviation = sqrt(square / SAMPLES - mean * mean);
    snprintf(why, sizeof why, "mean area %.3f, deviation %.3f, mean log aspect %.3f", mean, deviation, logs / SAMPLES);
    say(good && fabs(mean - 0.3) < 0.015 && fabs(deviation - 0.4 / sqrt(12)) < 0.015 && fabs(logs / SAMPLES) < 0.02,
        "random_resized_crop: areas and aspects are spread as they should", why);

    from = ramp(pixels, 200, 10); /* no window fits: the middle, as wide as the aspect allows */
    stage.scale[0] = stage.scale[1] = 1;
    good = mgpu_image_stages(reading, &from, &stage, 1, 5, (ImageMeaning){false, 0}, &to, why);
    int low = to.pixels[0], high = to.pixels[15 * 3];
    snprintf(why, sizeof why, "from %d to %d", low, high);
    say(good && low >= 93 && low <= 94 && high >= 105 && high <= 106,
        "random_resized_crop: a window in the middle where none fits", why);
    mgpu_reading_reset(reading);
}

/* ---- what cannot be read */
static void refuses(Reading *reading, const char *name, Bytes b, int channels, const char *message)
{
    char why[MGPU_IMAGE_WHY] = "it was read";
    Image image;
    bool good = !mgpu_image_decode(reading, b.data, b.size, channels, &image, why) && strstr(why, message);
    say(good, name, why);
    mgpu_reading_reset(reading);
}

static void damaged(Reading *reading)
{
    Bytes empty = {(uint8_t *)"", 0};
    refuses(reading, "an empty file", empty, 3, "empty");
    refuses(reading, "another kind of file", (Bytes){(uint8_t *)"GIF89a....", 10}, 3, "neither a JPEG nor a PNG");
    const char *const files[] = {"colour.jpg", "progressive.jpg", "colour.png", "woven.png"};
    for (int i = 0; i < MGPU_COUNT(files); i++) {
        Bytes b = picture_file(files[i]);
        int64_t size = b.size;
        bool good = true;
        char why[MGPU_IMAGE_WHY] = "", name[120];
        Image image;
        /* at every length but the last few bytes, which say only that it ends */
        for (b.size = 0; b.size < size - 30; b.size++) {
            uint8_t *part = malloc((size_t)b.size + 1); /* so that a sanitizer sees a byte too many */
            memcpy(part, b.data, (size_t)b.size);
            good = good && !mgpu_image_decode(reading, part, b.size, 3, &image, why);
            mgpu_reading_reset(reading);
            free(part);
        }
        snprintf(name, sizeof name, "%s, cut off anywhere", files[i]);
        say(good, name, "a part of it passed for a picture");
        /* damaged: whatever comes out, it comes back */
        for (int64_t k = 0; k < size; k++) {
            uint8_t old = b.data[k];
            b.data[k] = (uint8_t)(old ^ (1 + noise((uint32_t)k)));
            mgpu_image_decode(reading, b.data, size, 3, &image, why);
            mgpu_reading_reset(reading);
            b.data[k] = old;
        }
        snprintf(name, sizeof name, "%s, each byte damaged", files[i]);
        say(mgpu_image_decode(reading, b.data, size, 3, &image, why), name, why);
        mgpu_reading_reset(reading);
        free(b.data);
    }
    Bytes b = picture_file("colour.png");
    memcpy(b.data + 16, "\x00\x0f\x00\x00\x00\x0f\x00\x00", 8); /* the header's check sum is then wrong, too */
    refuses(reading, "a header that lies", b, 3, "not a whole PNG file");
    free(b.data);
    b = picture_file("deep.png");
    refuses(reading, "classes of pixels are no colours", b, MGPU_IMAGE_LABELS, "up to 8 bits, grey or with a palette");
    free(b.data);
    b = picture_file("colour.jpg");
    uint8_t *longer = malloc((size_t)b.size + 8); /* superfluous bytes before the end */
    memcpy(longer, b.data, (size_t)b.size - 2);
    memcpy(longer + b.size - 2, "\x12\x34\x56\x78\xff\xd9", 6);
    char why[MGPU_IMAGE_WHY] = "";
    Image image;
    say(mgpu_image_decode(reading, longer, b.size + 4, 3, &image, why), "superfluous bytes do no harm", why);
    mgpu_reading_reset(reading);
    free(longer);
    free(b.data);
}

/* ---- real photos: sizes and means of all channels, as their manifest says them to three places */
static void photos(Reading *reading)
{
    const char *data = getenv("MGPU_DATA");
    char *path = mgpu_format("%s/flower-photos/MANIFEST.csv", data ? data : "data"), line[1000], why[MGPU_IMAGE_WHY] = "";
    FILE *f = fopen(path, "r");
    int count = 0, wrong = 0;
    if (!f || !fgets(line, sizeof line, f)) {
        printf("skip photos: no %s\n", path);
        return;
    }
    while (fgets(line, sizeof line, f)) {
        char file[300];
        int width, height;
        double mean[3], found[3] = {0};
        char *last = line + strlen(line);
        for (int commas = 0; last > line && commas < 3;)
            commas += *--last == ',';
        if (sscanf(line, "%299[^,],%*d,%d,%d", file, &width, &height) != 3 ||
            sscanf(last, ",%lf,%lf,%lf", &mean[0], &mean[1], &mean[2]) != 3)
            mgpu_fail(3, "%s: a line makes no sense: %.80s", path, line);
        char *picture = mgpu_format("%.*s/%s", (int)(strrchr(path, '/') - path), path, file);
        Bytes b = read_file(picture);
        Image image;
        bool good = mgpu_image_decode(reading, b.data, b.size, 3, &image, why) && image.width == width && image.height == height;
        for (int64_t i = 0; good && i < (int64_t)width * height; i++)
            for (int c = 0; c < 3; c++)
                found[c] += image.pixels[3 * i + c];
        for (int c = 0; good && c < 3; c++)
            good = fabs(found[c] / width / height - mean[c]) < 0.00051;
        wrong += !good;
        count++;
        mgpu_reading_reset(reading);
        free(b.data);
        free(picture);
    }
    fclose(f);
    free(path);
    snprintf(why, sizeof why, "%d of %d differ", wrong, count);
    say(count >= 200 && wrong == 0, "photos: sizes and means", why);
}

int main(void)
{
    char why[MGPU_IMAGE_WHY] = "";
    variants();
    if (!mgpu_image_library(IMAGE_JPEG, why) || !mgpu_image_library(IMAGE_PNG, why)) {
        printf("skip image: %s\n", why);
        return failed != 0;
    }
    Reading reading = {.seed = 3, .epoch = 2};
    stored_values(&reading);
    random_crops(&reading);
    random_resized(&reading);
    damaged(&reading);
    photos(&reading);
    mgpu_reading_close(&reading);
    return failed != 0;
}
