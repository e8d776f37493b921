/* library.c: the layers of the library. A model uses few of them, and parsing all takes longer than compiling most models. So
 * each layer's part of a file, which begins with the word `layer` in the first column, is parsed when the layer is first used. */
#include "dsl/elaborate.h"

#include <string.h>

static const char LAYER_WORD[] = "\nlayer ";

/* Adds a layer. Its source begins with as many empty lines as precede it in the file, so that line numbers are right. */
static void add_part(Elaborator *e, const LibraryFile *f, size_t lines, const char *begin, const char *name, size_t length)
{
    char *text = allocate(lines + length + 1);
    memset(text, '\n', lines);
    memcpy(text + lines, begin, length);
    Source *s = NEW(Source);
    Layer *l = NEW(Layer);
    *s = (Source){.file = f->name, .text = text, .length = lines + length, .library = true};
    *l = (Layer){.kind = LAYER_TEXT, .name = copy_text(name, strcspn(name, "(")), .source = s};
    if (map_get(&e->library, l->name))
        die("%s: the library has the layer '%s' twice", f->name, l->name);
    map_set(&e->library, l->name, l);
}

Layer *library_layer(const Elaborator *e, const char *name)
{
    Layer *l = map_get(&e->library, name);
    if (!l || l->tree)
        return l;
    const Tree *file = parse(l->source);
    if (tree_count(file) != 1 || file->first->kind != TREE_LAYER || strcmp(file->first->text, name) != 0)
        die("%s: the library may hold layers only; beside '%s' is something else", l->source->file, name);
    l->tree = file->first;
    return l;
}

void load_library(Elaborator *e)
{
    for (const LibraryFile *f = LIBRARY_FILES; f->name; f++) {
        size_t lines = 0;
        const char *begin = f->text, *next;
        for (const char *word = strstr(begin, LAYER_WORD); word; word = next) {
            next = strstr(word + 1, LAYER_WORD);
            const char *end = next ? next + 1 : word + strlen(word);
            add_part(e, f, lines, begin, word + strlen(LAYER_WORD), (size_t)(end - begin));
            for (; begin < end; begin++)
                lines += *begin == '\n';
        }
    }
}
