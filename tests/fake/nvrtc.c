/* nvrtc.c: an NVRTC for tests, of version MAJOR.MINOR, that fails: FAKE=compile or FAKE=image; it knows sm_75, sm_80 and
 * sm_90. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#ifndef MAJOR
#define MAJOR 13
#define MINOR 0
#endif

static int is(const char *word)
{
    const char *wish = getenv("FAKE");
    return wish && strcmp(wish, word) == 0;
}

/* clang-format off */
#define FUNCTION(type, name, parameters) type name parameters; type name parameters
/* clang-format on */
FUNCTION(const char *, nvrtcGetErrorString, (int error)) { return error ? "NVRTC_ERROR_COMPILATION" : "NVRTC_SUCCESS"; }
FUNCTION(int, nvrtcVersion, (int *major, int *minor))
{
    *major = MAJOR, *minor = MINOR;
    return 0;
}
FUNCTION(int, nvrtcCreateProgram, (void **program))
{
    *program = program;
    return 0;
}
FUNCTION(int, nvrtcCompileProgram, (void *program))
{
    (void)program;
    return is("compile");
}
FUNCTION(int, nvrtcGetProgramLogSize, (void *program, size_t *size))
{
    (void)program;
    *size = 18;
    return 0;
}
FUNCTION(int, nvrtcGetProgramLog, (void *program, char *log))
{
    (void)program;
    strcpy(log, "line 1 is strange");
    return 0;
}
FUNCTION(int, nvrtcGetCUBINSize, (void *program, size_t *size))
{
    (void)program;
    *size = 1;
    return is("image");
}
FUNCTION(int, nvrtcGetCUBIN, (void *program, char *image))
{
    (void)program;
    *image = 0;
    return 0;
}
FUNCTION(int, nvrtcGetPTXSize, (void *program, size_t *size))
{
    (void)program;
    *size = 1;
    return 0;
}
FUNCTION(int, nvrtcGetPTX, (void *program, char *image))
{
    (void)program;
    *image = 0;
    return 0;
}
FUNCTION(int, nvrtcGetNumSupportedArchs, (int *count))
{
    *count = 3;
    return 0;
}
FUNCTION(int, nvrtcGetSupportedArchs, (int *archs))
{
    archs[0] = 75, archs[1] = 80, archs[2] = 90;
    return 0;
}
