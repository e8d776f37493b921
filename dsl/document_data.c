/* document_data.c: what `mgpuc doc` prints about readers, stages and their options (the rows of readers.c). */
#include "dsl/data.h"
#include "dsl/document.h"

#include <string.h>

static const struct {
    const char *name, *about;
} ROWS[] = {
    {"idx", "IDX files, as those of MNIST: x = \"file\" is what the input x takes. The first axis counts the samples."},
    {"npy",
     "NumPy's .npy, or of an .npz file the array that is called like the column: x = \"file\" is what the input x takes. The first "
     "axis counts the samples."},
    {"csv",
     "A table (RFC 4180) with a line of titles: x = \"column\" or x = [\"column\", ...] is what the input x takes; any other input "
     "takes the column of its name. An input class(n) takes words or numbers, all others take numbers. image = decode(\"path\") reads "
     "the pictures that a column names."},
    {"images",
     "Pictures in a folder for each class, folder/CLASS/.../NAME.jpg (.jpeg, .png); folders in byte order are the classes. They "
     "have as many channels as the input (1, 3 or 4); stages such as resize and center_crop bring them to its size."},
    {"cifar",
     "The binary files of CIFAR-10 and CIFAR-100: data_batch_1.bin ... or train.bin in a folder; a path that ends in .bin is one "
     "file."},
    {"tokens",
     "A file of whole numbers, little-endian, without a header, in windows as long as the input: token, and next, the same one "
     "place further on."},
    {"characters",
     "A text (UTF-8) in windows of characters, as long as the input: token, and next, the same one place further on. "
     "Characters are numbered in order of their code points; the table is saved with the weights, and ./PROGRAM generate "
     "writes with it."},
    {"text", "A text (UTF-8) in windows of tokens of a vocabulary, made when the run begins: token, and next, the same one "
             "place further on."},
    {"tar", "Samples in tar files, shards of a large set."},
    {"mix", "Samples of several sets."},
    {"part",
     "The samples whose hash is in [from, to) of 0 to 1: part(0, 0.8) and part(0.8, 1) are complements, the same in every run. Of "
     "windows of a text: those in this stretch of it."},
    {"pairs", "Of the columns label and one other, x: left and right, two samples of x, and same, whether their labels are."},
    {"resize", "The shorter side becomes so many pixels, as in torchvision, antialiased; of classes the nearest."},
    {"center_crop", "The middle; a smaller picture gets borders of 0."},
    {"random_crop", "A part anywhere; a smaller picture is an error."},
    {"random_resized_crop", "A window of random place, area and form, brought to the size."},
    {"mixup", "Pairs of samples, mixed."},
    {"cutmix", "Samples with a window of another."},
    {"decode", "Pictures whose paths are in a column of a csv, relative to the table's folder."},
};
/* An entry for one reader or stage precedes the entry for all others. */
static const struct {
    const char *name, *row, *about;
} OPTIONS[] = {
    {"file", NULL, "its path, relative to --data; x.gz is found where x is asked for"},
    {"folder", NULL, "its path, relative to --data"},
    {"names", NULL, "[\"age\", \"income\"]: the columns, of a table without a line of titles"},
    {"header", NULL, "true, false: whether the first line has titles (true, unless names are given)"},
    {"missing", NULL,
     "\"?\" or [\"?\", \"NA\"]: what means a missing value, beside the empty field. A missing number is NaN "
     "(where(x == x, x, 0)), a missing word the class `other` of class(n, other = 0)"},
    {"strip", NULL, "\" .\": characters that are taken from both ends of a field that is not quoted"},
    {"delimiter", NULL, "\";\", or another character between the fields (\",\")"},
    {"on_bad", "csv", "\"stop\" (default), \"skip\": lines that cannot be read are left out, and counted"},
    {"on_bad", NULL,
     "\"stop\" (default), \"skip\": pictures that cannot be read are left out, and counted; all are decoded once when the "
     "run begins"},
    {"cache", "images", "\"ram\": pictures are kept as they were decoded"},
    {"cache", NULL, "\"ram\": files are read when the run begins; else plain ones are mapped, and may be larger than memory"},
    {"shuffle", NULL,
     "of the set that trains: true (default), a new order in every epoch; false, as they are stored; 10000samples, random blocks "
     "of so many neighbours, which a disk prefers"},
    {"stride", NULL, "places from one window to the next (default: its length, so that none overlap)"},
    {"type", NULL, "u8, u16 (default), u32, i32, i64"},
    {"vocabulary", "tokens",
     "a folder with the tokenizer that the tokens are of, for ./PROGRAM generate and export: tokenizer.json, or "
     "vocab.json and merges.txt"},
    {"vocabulary", NULL,
     "a folder with tokenizer.json of Hugging Face, encoder.json and vocab.bpe of GPT-2, or vocab.json and merges.txt"},
    {"from", NULL, "a share, 0 to 1"},
    {"to", NULL, "a share, 0 to 1"},
    {"same", NULL, "how often the labels of a pair are the same (0.5)"},
    {"size", NULL, "a number of pixels, or [height, width]"},
    {"scale", NULL, "which share of the area, even in [0.08, 1]"},
    {"ratio", NULL, "width / height, its logarithm even in [3/4, 4/3]"},
    {"alpha", NULL, "of the beta distribution"},
    {"column", NULL, "the title of the column"},
};

static const char *about_option(const char *row, const char *name)
{
    for (int k = 0; k < COUNT(OPTIONS); k++)
        if (strcmp(OPTIONS[k].name, name) == 0 && (!OPTIONS[k].row || strcmp(OPTIONS[k].row, row) == 0))
            return OPTIONS[k].about;
    die("the option %s of %s has no documentation", name, row);
}

static const char *about_row(const DataRow *row)
{
    const char *about = NULL;
    for (int k = 0; k < COUNT(ROWS); k++)
        if (strcmp(ROWS[k].name, row->name) == 0)
            about = ROWS[k].about;
    if (!about)
        die("%s has no documentation", row->name);
    Text t = {0};
    text_add(&t, "%s%s", about, row->later ? " (not yet)" : "");
    if (row->columns[0])
        text_add(&t, " Columns: %s.", row->columns);
    for (int k = 0; k < MOST_PARAMETERS && row->parameters[k].name; k++)
        text_add(&t, "\n%s: %s", row->parameters[k].name, about_option(row->name, row->parameters[k].name));
    return text_take(&t);
}

/* Returns a paragraph for each meaning of the option: "csv, tar: its meaning there". */
static const char *about_everywhere(const char *option)
{
    Text t = {0};
    Map meanings = {0}; /* meaning -> the rows that have it */
    for (const DataRow *row = DATA_ROWS; row->name; row++)
        for (int k = 0; k < MOST_PARAMETERS && row->parameters[k].name; k++) {
            if (strcmp(row->parameters[k].name, option) != 0)
                continue;
            const char *about = about_option(row->name, option);
            Text *rows = map_get(&meanings, about);
            if (!rows)
                map_set(&meanings, about, rows = NEW(Text));
            text_add(rows, "%s%s", rows->length ? ", " : "", row->name);
        }
    for (int k = 0; k < meanings.count; k++)
        text_add(&t, "%s%s: %s", k ? "\n" : "", text_of(meanings.values[k]), meanings.keys[k]);
    return text_take(&t);
}

void data_entries(Entries *out)
{
    Map seen = {0};
    for (const DataRow *row = DATA_ROWS; row->name; row++)
        add_entry(out, row->stage ? "Stages of data" : "Readers of data", row->name, row->usage, about_row(row));
    for (const DataRow *row = DATA_ROWS; row->name; row++)
        for (int k = 0; k < MOST_PARAMETERS && row->parameters[k].name; k++) {
            const char *name = row->parameters[k].name;
            if (map_get(&seen, name))
                continue;
            map_set(&seen, name, &seen);
            add_entry(out, "Options of readers and stages", name, format("%s = ...", name), about_everywhere(name));
        }
}
