/* lock.c: only one run may save into a folder. It holds a lock (flock) on DIR/lock, which contains its host and process. The
 * system releases the lock when the process ends; the file stays. Readers need no lock. By the token in the file, processes of
 * one run on several hosts recognize that they see the same folder. */
#include "runtime/base/base.h"
#include "runtime/save/save.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* Returns "process 4711 on host n1", as written by the holder. The caller frees. */
static char *holder_of(int file)
{
    char text[300];
    ssize_t length = pread(file, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = 0;
    text[strcspn(text, "\n")] = 0;
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
            *c = '?';
    return mgpu_format("%s", *text ? text : "another run");
}

static void write_holder(int file, const char *path, const char *token)
{
    static const char BEGIN[] = "process ";
    char was[sizeof BEGIN];
    ssize_t length = pread(file, was, sizeof BEGIN - 1, 0);
    if (length > 0 && memcmp(was, BEGIN, (size_t)length) != 0)
        mgpu_fail(MGPU_BAD_INPUT,
                  "%s is a file of another kind, which no run has written; rename it, or name another folder with --save", path);
    char host[200] = "";
    if (gethostname(host, sizeof host - 1) != 0)
        *host = 0;
    if (ftruncate(file, 0) != 0 || dprintf(file, "process %ld on host %s\n%s\n", (long)getpid(), *host ? host : "?", token) < 0 ||
        fsync(file) != 0)
        /* only other runs' messages need it */
        mgpu_say("%s: warning: %s cannot be written: %s", program_invocation_short_name, path, strerror(errno));
}

int mgpu_lock_folder(const char *folder, const char *token)
{
    char *path = mgpu_format("%s/lock", folder);
    mgpu_doing_with(path);
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666); /* no link to somewhere else */
    if (file < 0)
        mgpu_fail(MGPU_MACHINE_FAILED, "%s cannot be written: %s", path, strerror(errno));
    int error = flock(file, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    if (error == EWOULDBLOCK)
        mgpu_fail(MGPU_BAD_INPUT, "%s is in use: %s saves its run there; wait for its end, or name another folder with --save",
                  folder, holder_of(file));
    if (error) {
        mgpu_say("%s: warning: %s cannot be locked (%s): see to it that no other run saves there", program_invocation_short_name,
                 folder, strerror(error));
        close(file);
        file = -1;
    } else {
        write_holder(file, path, token);
    }
    free(path);
    return file;
}

bool mgpu_sees_lock(const char *folder, const char *token)
{
    char text[400], *path = mgpu_format("%s/lock", folder);
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t length = file < 0 ? 0 : pread(file, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = 0;
    if (file >= 0)
        close(file);
    free(path);
    return strstr(text, token) && access(folder, W_OK) == 0;
}
