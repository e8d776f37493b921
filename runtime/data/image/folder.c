/* folder.c: the reader images(dir): dir/CLASS/.../NAME.jpg -> columns image and label.
 *
 * As in torchvision's ImageFolder, the folders in `dir` are the classes, in byte order. The pictures of a class are the files
 * below its folder, at any depth, whose names end in .jpg, .jpeg or .png (in any case), sorted by folder, then by name. Names
 * that begin with a dot are skipped; links are followed. Pictures in other formats, by their names, are counted and one is named.
 * Other files, such as README.md, are ignored. */
#include "runtime/base/base.h"
#include "runtime/data/image/image.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

typedef struct NameList {
    char **name;
    int64_t count;
} NameList;
typedef struct Files {
    char **path;
    uint32_t *class;
    int64_t count, capacity;
    int64_t left;     /* pictures in other formats, by their names */
    char *first_left; /* the first of them in byte order */
} Files;              /* in the reader's order */

typedef struct Above {
    dev_t device;
    ino_t number;
    const struct Above *up;
} Above; /* the enclosing folders, to detect links to them */

typedef struct Folder {
    Words classes, paths;
    uint32_t *class;  /* of each sample */
    uint32_t *number; /* of each sample: itself, as an index into `paths` */
    size_t prefix;    /* length of the part of paths that all samples have */
    int image, label; /* columns; -1: not wanted */
} Folder;

static void add_name(NameList *n, const char *name) { MGPU_PUSH(n->name, n->count, mgpu_format("%s", name)); }

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void free_names(NameList *n)
{
    for (int64_t i = 0; i < n->count; i++)
        free(n->name[i]);
    free(n->name);
}

static bool ends_in(const char *name, const char *const *ends, int count)
{
    const char *end = strrchr(name, '.');
    for (int i = 0; end && i < count; i++)
        if (strcasecmp(end, ends[i]) == 0)
            return true;
    return false;
}

bool mgpu_is_picture(const char *name)
{
    static const char *const ENDS[] = {".jpg", ".jpeg", ".png"};
    return ends_in(name, ENDS, MGPU_COUNT(ENDS));
}

static bool is_in_another_format(const char *name)
{
    static const char *const ENDS[] = {".webp", ".bmp", ".gif", ".tif",  ".tiff", ".heic", ".heif",
                                       ".avif", ".jxl", ".jp2", ".jfif", ".jpe",  ".ppm",  ".pgm",
                                       ".pnm",  ".tga", ".npy", ".npz",  ".dng",  ".dcm",  ".svg"};
    return ends_in(name, ENDS, MGPU_COUNT(ENDS));
}

static void leave_out(Files *files, const char *path)
{
    files->left++;
    if (files->first_left && strcmp(path, files->first_left) > 0)
        return;
    free(files->first_left);
    files->first_left = mgpu_format("%s", path);
}

/* Reports pictures that are left out, and resets their count. */
static void say_left(Files *files, const char *where)
{
    char more[60] = " is";
    if (files->left > 1)
        snprintf(more, sizeof more, " and %lld more are", (long long)files->left - 1);
    if (files->left)
        mgpu_say(
            "%s%s%s left out: pictures are files whose names end in .jpg, .jpeg or .png; ImageMagick's `mogrify -format png FILES` "
            "converts others",
            where, files->first_left, more);
    free(files->first_left);
    files->first_left = NULL;
    files->left = 0;
}

/* Lists a folder, sorted. `files` counts pictures in other formats. Returns false if the folder cannot be read. */
static bool list(const char *folder, NameList *folders, NameList *pictures, Files *files)
{
    DIR *d = opendir(folder);
    if (!d)
        return false;
    for (struct dirent *entry; (entry = readdir(d));) {
        if (entry->d_name[0] == '.')
            continue;
        char *path = mgpu_format("%s/%s", folder, entry->d_name);
        struct stat status;
        bool there = entry->d_type == DT_DIR || entry->d_type == DT_REG || stat(path, &status) == 0;
        bool inside = entry->d_type == DT_DIR || (entry->d_type != DT_REG && there && S_ISDIR(status.st_mode));
        if (there && inside)
            add_name(folders, entry->d_name);
        else if (there && mgpu_is_picture(entry->d_name))
            add_name(pictures, entry->d_name);
        else if (there && is_in_another_format(entry->d_name))
            leave_out(files, path);
        free(path);
    }
    closedir(d);
    if (folders->count)
        qsort(folders->name, (size_t)folders->count, sizeof *folders->name, by_bytes);
    if (pictures->count)
        qsort(pictures->name, (size_t)pictures->count, sizeof *pictures->name, by_bytes);
    return true;
}

static void add_file(Files *f, char *path, int64_t class)
{
    if (f->count == f->capacity) {
        f->capacity = 2 * f->capacity + 256;
        f->path = mgpu_resize(f->path, (size_t)f->capacity * sizeof *f->path);
        f->class = mgpu_resize(f->class, (size_t)f->capacity * sizeof *f->class);
    }
    f->path[f->count] = path;
    f->class[f->count++] = (uint32_t) class;
}

/* Collects all pictures below `folder`: first those in it, then those of its folders. */
static void collect(Files *files, const char *folder, int64_t class, const Above *up, const char *where)
{
    NameList folders = {0}, pictures = {0};
    struct stat status;
    if (stat(folder, &status) != 0 || !list(folder, &folders, &pictures, files))
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: %s", where, folder, strerror(errno));
    const Above own = {status.st_dev, status.st_ino, up};
    for (; up; up = up->up)
        if (up->device == own.device && up->number == own.number)
            mgpu_fail(MGPU_BAD_INPUT, "%s%s is a folder that it is in: a link leads back up", where, folder);
    for (int64_t i = 0; i < pictures.count; i++)
        add_file(files, mgpu_format("%s/%s", folder, pictures.name[i]), class);
    for (int64_t i = 0; i < folders.count; i++) {
        char *inner = mgpu_format("%s/%s", folder, folders.name[i]);
        collect(files, inner, class, &own, where);
        free(inner);
    }
    free_names(&folders);
    free_names(&pictures);
}

char **mgpu_list_pictures(const char *folder, int64_t *count)
{
    Files files = {0};
    char *path = mgpu_format("%s", folder);
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/';)
        path[--n] = 0;
    collect(&files, path, 0, NULL, "");
    if (!files.count)
        mgpu_fail(MGPU_BAD_INPUT, "%s holds no pictures: no file below it ends in .jpg, .jpeg or .png", folder);
    say_left(&files, "");
    free(path);
    free(files.class);
    *count = files.count;
    return files.path;
}

static void open_classes(Folder *f, Files *files, const char *path, const Opening *o)
{
    NameList folders = {0}, pictures = {0};
    if (!list(path, &folders, &pictures, files))
        mgpu_fail(MGPU_BAD_INPUT, "%s%s: %s%s", o->where, path, errno == ENOENT ? "there is no such folder" : strerror(errno),
                  errno == ENOENT ? mgpu_data_cure(o->folder) : "");
    if (!folders.count)
        mgpu_fail(MGPU_BAD_INPUT, "%s%s holds no folders; images(\"%s\") takes a folder for each class, %s/CLASS/*.jpg or *.png",
                  o->where, path, path, path);
    if (pictures.count)
        mgpu_say("%s%s/%s%s in no folder of a class: left out", o->where, path, pictures.name[0],
                 pictures.count > 1 ? " and other pictures are" : " is");
    for (int64_t c = 0; c < folders.count; c++) {
        int64_t before = files->count;
        char *inner = mgpu_format("%s/%s", path, folders.name[c]);
        collect(files, inner, c, NULL, o->where);
        if (files->count == before)
            mgpu_fail(MGPU_BAD_INPUT, "%s%s: a class without pictures: no file below it ends in .jpg, .jpeg or .png", o->where,
                      inner);
        free(inner);
    }
    say_left(files, o->where);
    free_names(&pictures);
    f->classes = (Words){folders.name, folders.count, .places = true};
    f->prefix = strlen(path) + 1;
}

static void read_folder(const Stream *s, int64_t sample, Reading *r, Item *items)
{
    (void)r;
    const Folder *f = s->state;
    if (f->image >= 0 && items[f->image].wanted)
        items[f->image] = (Item){.wanted = true, .dtype = MGPU_U32, .data = &f->number[sample]};
    if (f->label >= 0 && items[f->label].wanted)
        items[f->label] = (Item){.wanted = true, .dtype = MGPU_U32, .data = &f->class[sample]};
}

static void describe_folder(const Stream *s, int64_t sample, int column, char *text, size_t capacity)
{
    const Folder *f = s->state;
    snprintf(text, capacity, "%s: column '%s'", f->paths.text[sample], s->columns[column].name);
}

static const char *name_file(const Stream *s, int64_t sample, char *text, size_t capacity)
{
    const Folder *f = s->state;
    snprintf(text, capacity, "%s", f->paths.text[sample]);
    return "file";
}

static uint64_t folder_identity(const Stream *s, int64_t sample)
{
    const Folder *f = s->state;
    return mgpu_hash_text(f->paths.text[sample] + f->prefix);
}

static void free_words(Words *w)
{
    for (int64_t i = 0; i < w->count; i++)
        free(w->text[i]);
    free(w->text);
}

static void close_folder(Stream *s)
{
    Folder *f = s->state;
    free_words(&f->classes);
    free_words(&f->paths);
    free(f->class);
    free(f->number);
    free(f);
}

Stream *mgpu_open_images(const Opening *o)
{
    Stream *s = mgpu_new_stream(o, o->column_count);
    Folder *f = s->state = mgpu_allocate(1, sizeof *f);
    Files files = {0};
    char *path = mgpu_path_in(o->folder, mgpu_option_text(o->call, "folder", ""));
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/';)
        path[--n] = 0;
    open_classes(f, &files, path, o);
    free(path);
    f->paths = (Words){files.path, files.count, .places = true};
    f->class = files.class;
    f->number = mgpu_allocate((size_t)files.count, sizeof *f->number);
    for (int64_t i = 0; i < files.count; i++)
        f->number[i] = (uint32_t)i;
    f->image = f->label = -1;
    for (int c = 0; c < o->column_count; c++) {
        bool image = strcmp(o->columns[c].name, "image") == 0;
        *(image ? &f->image : &f->label) = c;
        s->columns[c] = (StreamColumn){.name = o->columns[c].name,
                                       .uniform = true,
                                       .dtype = MGPU_U32,
                                       .words = image ? &f->paths : &f->classes,
                                       .input = mgpu_column_input(o, &o->columns[c])};
    }
    s->samples = files.count;
    s->read = read_folder;
    s->describe = describe_folder;
    s->name = name_file;
    s->identity = folder_identity;
    s->close = close_folder;
    if (f->image < 0)
        return s;
    Opening decoding = *o;
    decoding.from = s;
    return mgpu_decode_paths(&decoding, NULL, &s->columns[f->image].name, 1);
}
