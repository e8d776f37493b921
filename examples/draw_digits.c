/* draw_digits: draws handwritten-looking digits and writes them as IDX files, gzip-compressed, or as pictures.
 *
 *     draw_digits FOLDER [TRAIN [TEST]]      default 20000 and 4000 images
 *     draw_digits --png FOLDER [COUNT]       FOLDER/0/00010.png ... of each digit in a folder of its own; default 2000
 *
 * A digit is a set of strokes, each a smooth curve through a few points of the unit square. Every image moves every
 * point a little, bends the whole by a random affine map, picks a pen width and an ink, and adds noise and a stray line.
 * All of it comes from a generator seeded by the image's number; test images have numbers that training never uses, so
 * their strokes are unseen. The same call writes the same bytes. */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

enum { SIDE = 28, MOST_POINTS = 12, MOST_STROKES = 3, SEGMENTS = 8 };

typedef struct Point {
    double x, y;
} Point;
typedef struct Stroke {
    int count;
    Point at[MOST_POINTS];
} Stroke;

/* two ways to write each digit; y grows downwards */
static const Stroke GLYPHS[10][2][MOST_STROKES] = {
    {{{9, {{.5, .05}, {.2, .2}, {.12, .5}, {.2, .8}, {.5, .95}, {.8, .8}, {.88, .5}, {.8, .2}, {.5, .05}}}},
     {{9, {{.6, .03}, {.3, .15}, {.2, .55}, {.3, .9}, {.5, .97}, {.72, .85}, {.8, .5}, {.75, .15}, {.5, .05}}}}},
    {{{3, {{.32, .25}, {.52, .05}, {.52, .95}}}}, {{3, {{.5, .03}, {.5, .5}, {.5, .97}}}, {2, {{.3, .96}, {.7, .96}}}}},
    {{{7, {{.18, .25}, {.35, .06}, {.68, .08}, {.78, .3}, {.55, .6}, {.2, .93}, {.85, .93}}}},
     {{8, {{.2, .2}, {.5, .04}, {.78, .22}, {.6, .55}, {.25, .85}, {.22, .95}, {.45, .88}, {.85, .95}}}}},
    {{{9, {{.2, .12}, {.5, .04}, {.78, .2}, {.65, .42}, {.42, .48}, {.7, .54}, {.82, .75}, {.55, .96}, {.18, .88}}}},
     {{4, {{.2, .06}, {.8, .06}, {.48, .4}, {.45, .42}}}, {5, {{.45, .42}, {.75, .5}, {.8, .78}, {.5, .97}, {.18, .86}}}}},
    {{{3, {{.6, .04}, {.15, .65}, {.88, .65}}}, {2, {{.65, .35}, {.65, .97}}}},
     {{4, {{.25, .05}, {.2, .5}, {.5, .55}, {.8, .5}}}, {2, {{.78, .05}, {.76, .97}}}}},
    {{{2, {{.78, .06}, {.28, .06}}}, {6, {{.28, .06}, {.25, .42}, {.6, .38}, {.82, .65}, {.6, .94}, {.18, .9}}}},
     {{8, {{.8, .08}, {.3, .05}, {.24, .3}, {.22, .46}, {.55, .4}, {.8, .68}, {.5, .97}, {.2, .86}}}}},
    {{{8, {{.7, .05}, {.35, .3}, {.18, .65}, {.35, .93}, {.68, .92}, {.8, .68}, {.6, .5}, {.22, .62}}}},
     {{8, {{.55, .03}, {.3, .35}, {.22, .7}, {.4, .96}, {.7, .9}, {.75, .65}, {.5, .55}, {.25, .7}}}}},
    {{{3, {{.15, .07}, {.85, .07}, {.4, .96}}}}, {{3, {{.18, .1}, {.82, .08}, {.45, .97}}}, {2, {{.35, .52}, {.75, .5}}}}},
    {{{9, {{.5, .5}, {.22, .28}, {.5, .05}, {.78, .28}, {.5, .5}, {.18, .75}, {.5, .96}, {.82, .75}, {.5, .5}}}},
     {{5, {{.5, .48}, {.25, .26}, {.5, .04}, {.75, .26}, {.5, .48}}},
      {5, {{.5, .48}, {.2, .72}, {.5, .96}, {.8, .72}, {.5, .48}}}}},
    {{{8, {{.8, .32}, {.55, .5}, {.25, .4}, {.25, .15}, {.55, .04}, {.8, .2}, {.78, .55}, {.55, .97}}}},
     {{6, {{.76, .3}, {.5, .5}, {.22, .3}, {.48, .04}, {.76, .2}, {.76, .3}}}, {2, {{.76, .25}, {.7, .97}}}}},
};

typedef struct Random {
    uint64_t state;
} Random;

static uint64_t next(Random *r) /* splitmix64 */
{
    uint64_t z = r->state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

static double uniform(Random *r, double low, double high) { return low + (high - low) * (double)(next(r) >> 11) * 0x1p-53; }

static double normal(Random *r, double deviation)
{
    double u = uniform(r, 1e-12, 1), v = uniform(r, 0, 2 * M_PI);
    return deviation * sqrt(-2 * log(u)) * cos(v);
}

static Point between(const Point *p, int count, double t) /* Catmull-Rom through the points, t in [0, count - 1] */
{
    int i = (int)t;
    if (i > count - 2)
        i = count - 2;
    double f = t - i;
    Point a = p[i > 0 ? i - 1 : 0], b = p[i], c = p[i + 1], d = p[i + 2 < count ? i + 2 : count - 1];
    double w[4] = {-.5 * f + f * f - .5 * f * f * f, 1 - 2.5 * f * f + 1.5 * f * f * f, .5 * f + 2 * f * f - 1.5 * f * f * f,
                   -.5 * f * f + .5 * f * f * f};
    return (Point){w[0] * a.x + w[1] * b.x + w[2] * c.x + w[3] * d.x, w[0] * a.y + w[1] * b.y + w[2] * c.y + w[3] * d.y};
}

static double distance(Point q, Point a, Point b)
{
    double dx = b.x - a.x, dy = b.y - a.y, l = dx * dx + dy * dy;
    double t = l > 0 ? ((q.x - a.x) * dx + (q.y - a.y) * dy) / l : 0;
    t = t < 0 ? 0 : t > 1 ? 1 : t;
    return hypot(q.x - a.x - t * dx, q.y - a.y - t * dy);
}

static void ink(double *image, const Point *line, int count, double width, double strength)
{
    for (int k = 0; k + 1 < count; k++) {
        double reach = width + 1;
        int x0 = (int)floor(fmin(line[k].x, line[k + 1].x) - reach), x1 = (int)ceil(fmax(line[k].x, line[k + 1].x) + reach);
        int y0 = (int)floor(fmin(line[k].y, line[k + 1].y) - reach), y1 = (int)ceil(fmax(line[k].y, line[k + 1].y) + reach);
        for (int y = y0 < 0 ? 0 : y0; y <= y1 && y < SIDE; y++)
            for (int x = x0 < 0 ? 0 : x0; x <= x1 && x < SIDE; x++) {
                double d = distance((Point){x + .5, y + .5}, line[k], line[k + 1]);
                double v = strength * fmin(1, fmax(0, width + .5 - d));
                if (v > image[y * SIDE + x])
                    image[y * SIDE + x] = v;
            }
    }
}

static void draw(int digit, uint64_t number, unsigned char *out)
{
    Random r = {number * 0xd1342543de82ef95ull + 12345};
    next(&r);
    double image[SIDE * SIDE] = {0};
    const Stroke *glyph = GLYPHS[digit][next(&r) & 1];
    double angle = uniform(&r, -.3, .3), shear = uniform(&r, -.3, .3), size = uniform(&r, 13, 21), wide = uniform(&r, .65, 1.0);
    double cx = SIDE / 2. + uniform(&r, -4, 4), cy = SIDE / 2. + uniform(&r, -3, 3);
    double width = uniform(&r, .5, 1.5), strength = uniform(&r, 130, 255);
    for (int s = 0; s < MOST_STROKES && glyph[s].count; s++) {
        Point moved[MOST_POINTS], line[MOST_POINTS * SEGMENTS];
        for (int i = 0; i < glyph[s].count; i++) {
            double x = (glyph[s].at[i].x - .5 + normal(&r, .025)) * size * wide,
                   y = (glyph[s].at[i].y - .5 + normal(&r, .025)) * size;
            x += shear * y;
            moved[i] = (Point){cx + x * cos(angle) - y * sin(angle), cy + x * sin(angle) + y * cos(angle)};
        }
        int count = (glyph[s].count - 1) * SEGMENTS + 1;
        for (int i = 0; i < count; i++)
            line[i] = between(moved, glyph[s].count, (double)i / SEGMENTS);
        ink(image, line, count, width, strength);
    }
    Point stray[2] = {{uniform(&r, 0, SIDE), uniform(&r, 0, SIDE)}, {0, 0}};
    stray[1] = (Point){stray[0].x + normal(&r, 4), stray[0].y + normal(&r, 4)};
    ink(image, stray, 2, .4, uniform(&r, 40, 130));
    for (int i = 0; i < SIDE * SIDE; i++) {
        double v = image[i] + fabs(normal(&r, 14));
        out[i] = (unsigned char)(v > 255 ? 255 : v);
    }
}

static void die(const char *path)
{
    fprintf(stderr, "draw_digits: %s cannot be written: %s\n", path, strerror(errno));
    exit(3);
}

static void write_idx(const char *folder, const char *name, const unsigned char *bytes, int count, int rank)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.gz", folder, name);
    uint32_t extents[3] = {(uint32_t)count, SIDE, SIDE};
    unsigned char head[16] = {0, 0, 8, (unsigned char)rank};
    for (int i = 0; i < rank; i++)
        for (int b = 0; b < 4; b++)
            head[4 + 4 * i + b] = (unsigned char)(extents[i] >> (24 - 8 * b));
    gzFile f = gzopen(path, "wb1");
    unsigned length = (unsigned)count * (rank == 3 ? SIDE * SIDE : 1);
    if (!f || gzwrite(f, head, 4 + 4 * (unsigned)rank) <= 0 || gzwrite(f, bytes, length) != (int)length || gzclose(f) != Z_OK)
        die(path);
}

static void write_set(const char *folder, const char *name, int count, uint64_t first)
{
    unsigned char *images = malloc((size_t)count * SIDE * SIDE), *labels = malloc((size_t)count);
    if (!images || !labels)
        die(folder);
    for (int i = 0; i < count; i++) {
        Random r = {first + (uint64_t)i};
        labels[i] = (unsigned char)(next(&r) % 10);
        draw(labels[i], first + (uint64_t)i, images + (size_t)i * SIDE * SIDE);
    }
    char file[64];
    snprintf(file, sizeof file, "%s-images-idx3-ubyte", name);
    write_idx(folder, file, images, count, 3);
    snprintf(file, sizeof file, "%s-labels-idx1-ubyte", name);
    write_idx(folder, file, labels, count, 1);
    free(images);
    free(labels);
}

/* ---- pictures */
static void put32(unsigned char *to, uint32_t n)
{
    for (int b = 0; b < 4; b++)
        to[b] = (unsigned char)(n >> (24 - 8 * b));
}

static void write_chunk(FILE *f, const char *type, const unsigned char *data, uint32_t bytes)
{
    unsigned char head[8], sum[4];
    put32(head, bytes);
    memcpy(head + 4, type, 4);
    put32(sum, (uint32_t)crc32(crc32(0, head + 4, 4), data, bytes));
    fwrite(head, 1, 8, f);
    fwrite(data, 1, bytes, f);
    fwrite(sum, 1, 4, f);
}

static void write_png(const char *path, const unsigned char *image)
{
    unsigned char rows[SIDE][SIDE + 1], packed[2 * sizeof rows], head[13] = {[8] = 8}; /* 8 bits, grey */
    uLongf bytes = sizeof packed;
    for (int y = 0; y < SIDE; y++) {
        rows[y][0] = 0; /* no filter */
        memcpy(rows[y] + 1, image + y * SIDE, SIDE);
    }
    put32(head, SIDE);
    put32(head + 4, SIDE);
    FILE *f = fopen(path, "wb");
    if (!f || compress2(packed, &bytes, rows[0], sizeof rows, 6) != Z_OK)
        die(path);
    fwrite("\x89PNG\r\n\x1a\n", 1, 8, f);
    write_chunk(f, "IHDR", head, sizeof head);
    write_chunk(f, "IDAT", packed, (uint32_t)bytes);
    write_chunk(f, "IEND", head, 0);
    if (fclose(f) != 0)
        die(path);
}

static void write_pictures(const char *folder, int count)
{
    char path[4096];
    for (int i = 0; i < count; i++) {
        unsigned char image[SIDE * SIDE];
        snprintf(path, sizeof path, "%s/%d", folder, i % 10);
        if (mkdir(path, 0777) && errno != EEXIST)
            die(path);
        draw(i % 10, 1 + (uint64_t)i, image);
        snprintf(path, sizeof path, "%s/%d/%05d.png", folder, i % 10, i);
        write_png(path, image);
    }
}

int main(int argc, char **argv)
{
    int png = argc > 1 && strcmp(argv[1], "--png") == 0;
    argc -= png;
    argv += png;
    int train = argc > 2 ? atoi(argv[2]) : png ? 2000 : 20000, test = argc > 3 ? atoi(argv[3]) : 4000;
    if (argc < 2 || argc > 4 - png || train < 1 || test < 1 || train > 1000000 || test > 1000000 || argv[1][0] == '-') {
        fprintf(stderr, "usage: draw_digits FOLDER [TRAIN [TEST]], or draw_digits --png FOLDER [COUNT]\n");
        return 2;
    }
    for (char *slash = argv[1]; (slash = strchr(slash + 1, '/'));) { /* the folders that it lies in */
        *slash = 0;
        mkdir(argv[1], 0777);
        *slash = '/';
    }
    if (mkdir(argv[1], 0777) && errno != EEXIST)
        die(argv[1]);
    if (png) {
        write_pictures(argv[1], train);
        return 0;
    }
    write_set(argv[1], "train", train, 1);
    write_set(argv[1], "test", test, 1ull << 40);
    return 0;
}
