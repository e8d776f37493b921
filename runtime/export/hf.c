/* hf.c: `export hf DIR`: writes the model for transformers: config.json, model.safetensors, the tokenizer. The family is that of
 * --as, or the first of dsl/stdlib/families.rules that has names for all weights and computes what the model computes. */
#include "runtime/base/base.h"
#include "runtime/data/data.h"
#include "runtime/data/vocabulary.h"
#include "runtime/export/family.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- which family */
static bool is_tensor(const Term *t, const char *each, const char *name)
{
    static const char *const END[] = {".weight", ".bias", ".running_mean", ".running_var", ""};
    for (int i = 0; i < t->count; i++)
        if (is_tensor(t->args[i], each, name))
            return true;
    bool block = each && strncmp(t->word, "*.", 2) == 0;
    for (int i = 0; !t->call && i < MGPU_COUNT(END); i++) {
        Capture captured[MGPU_MOST_STARS] = {{0}};
        char *pattern = mgpu_format("%s%s%s", block ? each : "", block ? t->word + 1 : t->word, END[i]);
        bool fits = mgpu_fits_pattern(pattern, name, captured);
        for (int star = 0; star < 2; star++)
            for (int k = 0; fits && k < captured[star].length; k++)
                fits = captured[star].begin[k] >= '0' && captured[star].begin[k] <= '9';
        free(pattern);
        if (fits)
            return true;
    }
    return false;
}

static bool has_tensor(void *context, const char *name)
{
    const Family *f = context;
    for (int i = 0; i < f->compute_count; i++)
        if (is_tensor(f->computes[i].term, f->computes[i].each, name))
            return true;
    return false;
}

static void try_family(Published *p, const Family *f)
{
    p->family = f;
    p->names = (Names){0};
    p->computed = (Computed){0};
    Naming naming = {.rules = mgpu_rules(&p->library, f->rules), .admits = has_tensor, .context = (void *)(uintptr_t)f};
    mgpu_rename_weights(&p->names, p->export, &naming);
    if (!p->names.left)
        p->computed = mgpu_compare_with(f, &p->names);
    else
        p->computed.wrong = mgpu_format("the weight '%s' has no counterpart in the family '%s'", p->names.left, f->name);
}

static void close_try(Published *p)
{
    mgpu_close_names(&p->names);
    free(p->computed.wrong);
}

static char *family_names(const Family *f, int count)
{
    char *text;
    size_t length;
    FILE *out = mgpu_begin_text(&text, &length);
    for (int i = 0; i < count; i++)
        fprintf(out, "%s%s", i ? ", " : "", f[i].name);
    mgpu_end_text(out);
    return text;
}

static void find_tokenizer(Published *p)
{
    static const char *const NAME[] = {"bos", "eos"};
    p->tokenizer = mgpu_vocabulary_folder(p->export->program, p->export->options, false);
    for (int end = 0; p->tokenizer && end < 2; end++) {
        int64_t token = mgpu_special_token(p->tokenizer, end);
        if (token >= 0)
            mgpu_add_fact(&p->computed, NAME[end], NULL, (double)token);
    }
}

void mgpu_publish(Published *p, const Export *e)
{
    int count;
    *p = (Published){.export = e, .library = {.step = -1}};
    Family *f = mgpu_families(&p->library, &count);
    char *wrong = NULL;
    bool named = false, asked = false; /* named: `wrong` is about a family with names for all weights; asked: --as names one */
    const char *as = e->options->as;
    for (int i = 0; i < count; i++) {
        if (as && strcmp(as, f[i].name) != 0)
            continue;
        asked = true;
        try_family(p, &f[i]);
        if (!p->computed.wrong) {
            free(wrong);
            find_tokenizer(p);
            return;
        }
        if (!wrong || (!named && !p->names.left)) {
            named = !p->names.left;
            free(wrong);
            wrong = mgpu_format("%s", p->computed.wrong);
        }
        close_try(p);
    }
    if (!asked)
        mgpu_fail(MGPU_BAD_USAGE, "--as %s: there is no such family of models; there are: %s", as, family_names(f, count));
    if (named || as)
        mgpu_fail(MGPU_BAD_INPUT, "this model cannot be exported so that others compute the same: %s. %s", wrong, ANY_MODEL);
    mgpu_fail(
        MGPU_BAD_INPUT,
        "the weights of this model are those of no family that is known (%s); --as NAME says what one lacks; names of a family "
        "are those of the examples, or of Hugging Face. %s",
        family_names(f, count), ANY_MODEL);
}

void mgpu_close_published(Published *p)
{
    close_try(p);
    free(p->tokenizer);
    mgpu_close_tensors(&p->library);
}

/* ---- values */
static char *number_text(double v, bool real)
{
    char text[64];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    if (!real && v == (double)(int64_t)v)
        snprintf(text, sizeof text, "%lld", (long long)v);
    return mgpu_format("%s%s", text, real && !strpbrk(text, ".e") ? ".0" : "");
}

static char *fact_text(const Published *p, const char *text, bool real)
{
    char *name = mgpu_format("%.*s", (int)strcspn(text, " "), text);
    const FamilyFact *fact = mgpu_family_fact(&p->computed, name);
    bool none = !fact && strcmp(name, "window") == 0;
    free(name);
    if (!fact)
        return none ? mgpu_format("null") : NULL;
    return fact->text ? mgpu_format("\"%s\"", fact->text) : number_text(fact->number, real);
}

/* Returns the values of a text for each stage, which replaces its first *. */
static char *list_text(const Published *p, const char *text)
{
    char *list, *value = NULL;
    size_t length;
    FILE *f = mgpu_begin_text(&list, &length);
    for (int stage = 0; stage == 0 || value; stage++) {
        char *of = mgpu_in_block(text, NULL, (Block){0, stage});
        free(value);
        value = mgpu_value_of(p, of);
        fprintf(f, "%s%s", !stage ? "[" : value ? ", " : "]", value ? value : "");
        free(of);
    }
    mgpu_end_text(f);
    return list;
}

char *mgpu_value_of(const Published *p, const char *text)
{
    bool real = strncmp(text, "real ", 5) == 0;
    text += real ? 5 : 0;
    const char *open = strchr(text, '(');
    if (strncmp(text, "list ", 5) == 0)
        return list_text(p, text + 5);
    if (*text == '$')
        return fact_text(p, text + 1, real);
    if (!open || *text == '"' || *text == '[')
        return mgpu_format("%s", text);
    char *name = mgpu_format("%.*s", (int)strcspn(open + 1, ")"), open + 1);
    const Renamed *t = mgpu_renamed(&p->names, name);
    free(name);
    if (strncmp(text, "lacks", 5) == 0)
        return mgpu_format("%s", t ? "false" : "true");
    int axis = strncmp(text, "columns", 7) == 0;
    return t && t->tensor->tensor.rank > axis ? mgpu_format("%lld", (long long)t->tensor->tensor.extent[axis]) : NULL;
}

int64_t mgpu_whole_value(const Published *p, const char *text)
{
    char *value = mgpu_value_of(p, text);
    int64_t whole = value ? strtoll(value, NULL, 10) : 0;
    free(value);
    return whole;
}

/* ---- config.json */
typedef struct Config {
    const Published *published;
    FILE *f;
    const Json *kept; /* the file of --config, or NULL */
    bool any;
} Config;

static void write_json(FILE *f, const Json *v)
{
    char close = v->kind == JSON_LIST ? ']' : '}';
    switch (v->kind) {
    case JSON_NULL: fputs("null", f); break;
    case JSON_FALSE: fputs("false", f); break;
    case JSON_TRUE: fputs("true", f); break;
    case JSON_TEXT: mgpu_json_write_text(f, v->text); break;
    case JSON_NUMBER: {
        char *text = number_text(v->number, false);
        fputs(text, f);
        free(text);
        break;
    }
    case JSON_LIST:
    case JSON_OBJECT:
        fputc(v->kind == JSON_LIST ? '[' : '{', f);
        for (const Json *m = v->first; m; m = m->next) {
            if (v->kind == JSON_OBJECT) {
                mgpu_json_write_text(f, m->key);
                fputs(": ", f);
            }
            write_json(f, m);
            fputs(m->next ? ", " : "", f);
        }
        fputc(close, f);
    }
}

static void write_member(Config *c, const char *key, const char *value)
{
    fputs(c->any ? ",\n  " : "  ", c->f);
    mgpu_json_write_text(c->f, key);
    fprintf(c->f, ": %s", value);
    c->any = true;
}

/* Returns the value of --config KEY=VALUE as JSON; other texts are quoted. The caller frees. */
static char *given(const RunOptions *o, const char *key)
{
    size_t length = strlen(key);
    for (int i = o->config_count - 1; i >= 0; i--) {
        const char *text = o->config[i];
        if (strncmp(text, key, length) != 0 || text[length] != '=')
            continue;
        const char *value = text + length + 1, *error;
        Json *json = mgpu_json_read(value, strlen(value), &error);
        char *written;
        size_t size;
        FILE *f = mgpu_begin_text(&written, &size);
        if (json)
            fputs(value, f);
        else
            mgpu_json_write_text(f, value);
        mgpu_end_text(f);
        free(json);
        return written;
    }
    return NULL;
}

static char *kept_text(const Json *object, const char *key)
{
    const Json *member = object ? mgpu_json_member(object, key) : NULL;
    char *text = NULL;
    size_t length;
    if (!member)
        return NULL;
    FILE *f = mgpu_begin_text(&text, &length);
    write_json(f, member);
    mgpu_end_text(f);
    return text;
}

static bool same_value(const char *a, const char *b)
{
    char *end_a, *end_b;
    double x = strtod(a, &end_a), y = strtod(b, &end_b);
    return strcmp(a, b) == 0 || (end_a > a && end_b > b && !*end_a && !*end_b && x == y);
}

static void write_known(Config *c, const FamilyLine *line)
{
    const RunOptions *o = c->published->export->options;
    char *value = mgpu_value_of(c->published, line->text), *told = given(o, line->name), *kept = kept_text(c->kept, line->name);
    if (value && told && !same_value(value, told))
        mgpu_fail(MGPU_BAD_USAGE, "--config %s=%s: the model has %s", line->name, told, value);
    if (value && kept && !same_value(value, kept))
        mgpu_print("config.json: %s is %s, as the model has it, where the file of --config has %s\n", line->name, value, kept);
    const char *otherwise = strstr(line->text, " or "), *written = value ? value : told ? told : kept;
    if (!written)
        written = otherwise ? otherwise + strlen(" or ") : "null"; /* the value that all models of the family have */
    write_member(c, line->name, written);
    free(value);
    free(told);
    free(kept);
}

static bool is_known(const Config *c, const char *key)
{
    const Family *f = c->published->family;
    for (int i = 0; i < f->config_count; i++)
        if (strcmp(f->config[i].name, key) == 0)
            return true;
    return strcmp(key, "dtype") == 0 || strcmp(key, "torch_dtype") == 0 || strcmp(key, "transformers_version") == 0;
}

/* Writes keys that the family's lines lack: those of the file, then other given ones. */
static void write_others(Config *c)
{
    const RunOptions *o = c->published->export->options;
    for (const Json *m = c->kept ? c->kept->first : NULL; m; m = m->next) {
        char *told = given(o, m->key), *text = kept_text(c->kept, m->key);
        if (!is_known(c, m->key) && !told)
            write_member(c, m->key, text);
        free(told);
        free(text);
    }
    for (int i = 0; i < o->config_count; i++) {
        char *key = mgpu_format("%.*s", (int)strcspn(o->config[i], "="), o->config[i]), *value = given(o, key);
        if (value && !is_known(c, key))
            write_member(c, key, value);
        free(value);
        free(key);
    }
}

static Json *read_config(const RunOptions *o)
{
    for (int i = 0; i < o->config_count; i++) {
        if (strchr(o->config[i], '='))
            continue;
        const char *error = "it is no JSON object", *refused = NULL;
        size_t length;
        char *text = mgpu_read_whole(o->config[i], &length, &refused);
        if (!text)
            mgpu_fail(MGPU_BAD_INPUT, "--config %s: %s", o->config[i], refused ? refused : strerror(errno));
        Json *json = mgpu_json_read(text, length, &error);
        if (!json || json->kind != JSON_OBJECT)
            mgpu_fail(MGPU_BAD_INPUT, "--config %s: %s", o->config[i], error);
        free(text);
        return json;
    }
    return NULL;
}

static void write_config(const Published *p, const char *folder)
{
    static const char *const TYPE[] = {
        [MGPU_F32] = "float32", [MGPU_F64] = "float64", [MGPU_F16] = "float16", [MGPU_BF16] = "bfloat16"};
    char *path = mgpu_format("%s/config.json", folder), *what;
    WholeFile file = mgpu_begin_export(path);
    Json *kept = read_config(p->export->options);
    Config c = {.published = p, .f = file.f, .kept = kept};
    fputs("{\n", c.f);
    for (int i = 0; i < p->family->config_count; i++)
        write_known(&c, &p->family->config[i]);
    uint8_t dtype = p->names.list[0].tensor->tensor.dtype;
    char *type = mgpu_format("\"%s\"", TYPE[dtype]);
    write_member(&c, "dtype", type);
    write_others(&c);
    fputs("\n}\n", c.f);
    free(type);
    free(kept);
    what = mgpu_format("the model as one of the family '%s'", p->family->name);
    mgpu_end_export(&file, path, what);
    free(what);
    free(path);
}

/* ---- model.safetensors */
/* Lists the weights, and for each batchnorm the number of batches, 0, which PyTorch expects. Returns the count. */
static int list_tensors(const Names *n, SavedTensor *tensors)
{
    int count = n->count;
    for (int i = 0; i < n->count; i++) {
        const char *name = n->list[i].name, *mean = strstr(name, ".running_mean");
        tensors[i] = *n->list[i].tensor;
        tensors[i].tensor.name = mgpu_format("%s", name);
        if (mean)
            tensors[count++].tensor =
                (mgpu_tensor){mgpu_format("%.*s.num_batches_tracked", (int)(mean - name), name), MGPU_I64, 0, {0}};
    }
    return count;
}

static void write_tensors(const Published *p, const char *folder)
{
    enum { ELEMENTS = 1 << 18 };
    const Names *n = &p->names;
    SavedTensor *tensors = mgpu_allocate(2 * (size_t)n->count, sizeof *tensors);
    int all = list_tensors(n, tensors);
    char *path = mgpu_format("%s/model.safetensors", folder), *what = mgpu_format("%d tensors", all);
    WholeFile file = mgpu_begin_export(path);
    uint8_t *data = mgpu_allocate(ELEMENTS, 8);
    /* Without a step: a file with one has a model's own names, and would be read without the rules of families. */
    FileLayout layout = mgpu_lay_out(tensors, all, &(FileMetadata){.step = -1});
    fwrite(layout.header, 1, (size_t)layout.header_bytes, file.f);
    for (int k = 0; k < layout.count; k++) {
        if (layout.order[k] >= n->count) {
            fwrite(&(int64_t){0}, sizeof(int64_t), 1, file.f);
            continue;
        }
        const Renamed *r = &n->list[layout.order[k]];
        int64_t count = mgpu_elements(&r->tensor->tensor), each = mgpu_dtype_bytes(r->tensor->tensor.dtype);
        for (int64_t at = 0; at < count; at += ELEMENTS) {
            int64_t end = at + ELEMENTS < count ? at + ELEMENTS : count;
            mgpu_read_elements(r->tensor, (mgpu_range){at, end}, data);
            fwrite(data, (size_t)each, (size_t)(end - at), file.f);
        }
    }
    mgpu_end_export(&file, path, what);
    mgpu_close_layout(&layout);
    for (int i = 0; i < all; i++)
        free((char *)(uintptr_t)tensors[i].tensor.name);
    free(data);
    free(tensors);
    free(path);
    free(what);
}

void mgpu_export_hf(const Export *e)
{
    Published p;
    mgpu_publish(&p, e);
    if (mkdir(e->path, 0777) != 0 && errno != EEXIST)
        mgpu_fail(MGPU_MACHINE_FAILED, "%s cannot be made: %s", e->path, strerror(errno));
    write_config(&p, e->path);
    write_tensors(&p, e->path);
    if (mgpu_family_fact(&p.computed, "height"))
        mgpu_write_image_processor(&p, e->path);
    if (p.tokenizer)
        mgpu_copy_tokenizer(e, p.tokenizer, e->path);
    mgpu_close_published(&p);
}
