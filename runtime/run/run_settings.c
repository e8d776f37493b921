/* run_settings.c: the command line of a run, and the settings that were compiled in or that the command line has changed, for its
 * log. */
#include "runtime/base/base.h"
#include "runtime/base/options.h"
#include "runtime/base/intervals.h"
#include "runtime/run/commands.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the command line, quoted for a shell */
static void write_word(FILE *f, const char *word)
{
    static const char PLAIN[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%^";
    if (*word && !word[strspn(word, PLAIN)]) {
        fputs(word, f);
        return;
    }
    fputc('\'', f);
    for (; *word; word++)
        fputs(*word == '\'' ? "'\\''" : (char[]){*word, 0}, f);
    fputc('\'', f);
}

char *mgpu_command_line(const RunOptions *o)
{
    char *text;
    size_t length;
    FILE *f = mgpu_begin_text(&text, &length);
    for (int i = 0; i < o->argc; i++) {
        fputs(i ? " " : "", f);
        write_word(f, o->argv[i]);
    }
    mgpu_end_text(f);
    return text;
}

/* ---- settings of the program, or of --set and similar options */

/* Returns the value of a setting on the command line, or NULL. The caller frees. */
static char *set_here(const mgpu_program *p, const RunOptions *o, const char *name)
{
    const struct {
        const char *name;
        int64_t value;
    } WHOLE[] = {{"epochs", o->epochs}, {"steps", o->steps}, {"keep", o->keep}};
    const struct {
        const char *name;
        mgpu_quantity value;
    } QUANTITY[] = {{"validate", o->validate}, {"save", o->save_every}, {"patience", o->patience}};
    for (int i = 0; i < MGPU_COUNT(WHOLE); i++)
        if (strcmp(name, WHOLE[i].name) == 0 && WHOLE[i].value > 0)
            return mgpu_format("%lld", (long long)WHOLE[i].value);
    char text[48];
    for (int i = 0; i < MGPU_COUNT(QUANTITY); i++)
        if (strcmp(name, QUANTITY[i].name) == 0 && QUANTITY[i].value.unit != MGPU_UNIT_NONE)
            return mgpu_format("%s", mgpu_quantity_text(QUANTITY[i].value, text));
    for (int i = 0; i < p->setting_count && i < MGPU_MAX_SETTINGS; i++)
        if (strcmp(name, p->settings[i].name) == 0 && !isnan(o->setting[i]))
            return mgpu_format("%.9g", o->setting[i]);
    return strcmp(name, "seed") == 0 && o->seed_given ? mgpu_format("%llu", (unsigned long long)o->seed) : NULL;
}

static void write_value(FILE *f, const char *name, const char *text, int *written)
{
    fputs((*written)++ ? "," : "", f);
    mgpu_json_write_text(f, name);
    fputc(':', f);
    const char *error;
    Json *json = mgpu_json_read(text, strlen(text), &error);
    if (json && (json->kind == JSON_NUMBER || json->kind == JSON_TRUE || json->kind == JSON_FALSE))
        fputs(text, f);
    else
        mgpu_json_write_text(f, text);
    free(json);
}

void mgpu_write_settings(FILE *f, const mgpu_program *p, const RunOptions *o, bool params)
{
    static const char *const OWN[] = {"epochs", "steps", "validate", "save", "keep", "patience", "seed"};
    int written = 0;
    for (int i = 0; i < p->told_count; i++)
        if (p->told[i].param == params) {
            char *here = params ? NULL : set_here(p, o, p->told[i].name);
            write_value(f, p->told[i].name, here ? here : p->told[i].text, &written);
            free(here);
        }
    for (int i = 0; !params && i < MGPU_COUNT(OWN) + p->setting_count; i++) {
        const char *name = i < MGPU_COUNT(OWN) ? OWN[i] : p->settings[i - MGPU_COUNT(OWN)].name;
        bool known = false;
        for (int k = 0; k < p->told_count; k++)
            known = known || (!p->told[k].param && strcmp(p->told[k].name, name) == 0);
        char *here = known ? NULL : set_here(p, o, name);
        if (here)
            write_value(f, name, here, &written);
        free(here);
    }
}

const char *mgpu_compiled_setting(const mgpu_program *p, const char *setting)
{
    for (int i = 0; i < p->told_count; i++)
        if (!p->told[i].param && strcmp(p->told[i].name, setting) == 0)
            return p->told[i].text;
    return NULL;
}
