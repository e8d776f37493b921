/* import.c: `mgpuc import MODEL.onnx`, implemented by the Python package mgpuc (contrib/python): finds Python and starts it. */
#include "compiler/driver/command.h"
#include "compiler/link/translation_units.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char HELP[] =
    "mgpuc import MODEL.onnx [-o MODEL.net] [--shape NAME=1,3,224,224] [--batch | --no-batch] [--loss NAME] [--samples N] "
    "[--overwrite]\n"
    "\n"
    "A network of ONNX, operator sets 9 to 22, as readable text, and its weights beside it as MODEL.safetensors "
    "(docs/import.md).\n"
    "  -o, --output FILE    the text (default: MODEL.net in this folder)\n"
    "  --shape NAME=N,...   the shape of an input that the file leaves open; may be given several times\n"
    "  --batch, --no-batch  the first axis of each input is the batch, or of the sample; by default it is the batch if it is "
    "open or 1\n"
    "  --loss NAME          the loss to begin with; by default cross_entropy for vectors, else mse\n"
    "  --samples N          samples of a step of training to begin with; by default 32\n"
    "  --overwrite          also where the files are there already\n"
    "It runs python3, or what MGPUC_PYTHON names, with the packages numpy and onnx: pip install numpy onnx";

/* without the current folder, which may have anybody's mgpuc or numpy.py */
static const char START[] =
    "import sys; sys.path = [p for p in sys.path if p]; from mgpuc import __main__; __main__.main(sys.argv[1:])";

static const char *path_next_to(const char *mgpuc)
{
    const char *slash = strrchr(mgpuc, '/');
    const char *python = format("%.*s/python3", slash ? (int)(slash - mgpuc) : 0, mgpuc);
    return access(python, X_OK) == 0 ? python : "python3";
}

int command_import(int argc, char **argv)
{
    bool help = false;
    for (int i = 0; i < argc; i++)
        help |= strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0;
    if (help || !argc) {
        if (!help)
            fail(2, "mgpuc import: no model was given: mgpuc import MODEL.onnx -o MODEL.net");
        puts(HELP);
        return 0;
    }
    char own[4096];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    own[length > 0 ? length : 0] = 0;
    const char *named = getenv("MGPUC_PYTHON"), *paths = getenv("PYTHONPATH");
    const char *python = named && *named ? named : path_next_to(own), *package = format("%s/python", runtime_folder());
    if (access(package, R_OK) == 0) /* otherwise the package was installed by pip */
        setenv("PYTHONPATH", paths && *paths ? format("%s:%s", package, paths) : package, 1);
    setenv("MGPUC", own, 0);
    const char **words = NULL;
    int count = 0;
    APPEND(words, count, python);
    APPEND(words, count, "-c");
    APPEND(words, count, START);
    APPEND(words, count, "import");
    for (int i = 0; i < argc; i++)
        APPEND(words, count, argv[i]);
    APPEND(words, count, NULL);
    end_output();
    execvp(python, (char *const *)(uintptr_t)words);
    fail(3, "mgpuc import: '%s' cannot be started: %s; install Python 3 with numpy and onnx, or name one by MGPUC_PYTHON", python,
         strerror(errno));
}
