/* functions.c: a libcuda.so.1 that is another one (it is linked to it), and says which functions its modules are asked for in
 * vain. */
#include <dlfcn.h>
#include <stdio.h>

typedef int Call(void **function, void *module, const char *name);

int cuModuleGetFunction(void **function, void *module, const char *name)
{
    Call *call = (Call *)dlsym(RTLD_NEXT, "cuModuleGetFunction");
    int status = call(function, module, name);
    fprintf(stderr, status ? "asked in vain for %s\n" : "asked for %s\n", name);
    return status;
}
