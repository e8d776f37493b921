/* cores.c: the number of compute threads. In: what the process may use of the machine (its affinity, the limits of its control
 * groups, OMP_NUM_THREADS) and --threads; out: a number, and a text that says where it comes from.
 *
 * Control groups may be of version 1, 2, or both: /proc/self/cgroup names the process's group in every hierarchy, as
 * ID:CONTROLLERS:PATH. Limits apply to all groups below, so all folders from PATH up to the root of the hierarchy are read. In a
 * container PATH may be the host's and not exist; the root is then the container's own group. */
#include "runtime/base/base.h"
#include "runtime/base/cores.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_CORES = 1 << 16, PATH_BYTES = 4096 };

/* ---- control groups: the limit in cores, infinity if there is none */
static double read_pair(const char *folder, const char *file, const char *second_file)
{
    char path[PATH_BYTES + 300], text[64] = "";
    double period = 0;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *f = fopen(path, "re");
    if (!f)
        return INFINITY;
    if (!fgets(text, sizeof text, f))
        text[0] = 0;
    fclose(f);
    char *end;
    double quota = strtod(text, &end); /* "max" and -1: no limit */
    if (end == text || !(quota > 0))
        return INFINITY;
    if (second_file) {
        snprintf(path, sizeof path, "%s/%s", folder, second_file);
        if (!(f = fopen(path, "re")))
            return INFINITY;
        if (!fgets(text, sizeof text, f))
            text[0] = 0;
        fclose(f);
        end = text;
    }
    period = strtod(end, NULL);
    return period > 0 ? quota / period : INFINITY;
}

/* Returns the smallest limit of the group `path` below `root` and of all groups that contain it. */
static double limit_of(const char *root, const char *path, bool second_version)
{
    char folder[PATH_BYTES];
    double least = INFINITY;
    int length = snprintf(folder, sizeof folder, "%s%s", root, path);
    if (length < 0 || length >= (int)sizeof folder)
        length = snprintf(folder, sizeof folder, "%s", root);
    for (;;) {
        double limit =
            second_version ? read_pair(folder, "cpu.max", NULL) : read_pair(folder, "cpu.cfs_quota_us", "cpu.cfs_period_us");
        least = limit < least ? limit : least;
        char *slash = strrchr(folder, '/');
        if (length <= (int)strlen(root) || !slash || slash < folder + strlen(root))
            return least;
        *slash = 0;
        length = (int)(slash - folder);
    }
}

static bool lists(const char *controllers, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = controllers; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, length) == 0 && (!at[length] || at[length] == ','))
            return true;
    return false;
}

double mgpu_cgroup_limit(const char *root, const char *membership)
{
    FILE *f = fopen(membership, "re");
    if (!f)
        return INFINITY;
    char line[PATH_BYTES], mount[PATH_BYTES];
    double least = INFINITY;
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *controllers++ = *path++ = 0;
        bool second_version = !*controllers;
        if (!second_version && !lists(controllers, "cpu"))
            continue;
        const char *names[] = {second_version ? "" : controllers, second_version ? "unified" : "cpu"};
        for (int i = 0; i < MGPU_COUNT(names); i++) {
            int length = snprintf(mount, sizeof mount, "%s%s%s", root, *names[i] ? "/" : "", names[i]);
            if (length >= (int)sizeof mount)
                continue;
            double limit = limit_of(mount, strcmp(path, "/") == 0 ? "" : path, second_version);
            least = limit < least ? limit : least;
        }
    }
    fclose(f);
    return least;
}

/* ---- affinity */
int *mgpu_cores_allowed(int *count)
{
    int *cores = NULL;
    *count = 0;
    for (int capacity = 1024; capacity <= MOST_CORES; capacity *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)capacity);
        size_t bytes = CPU_ALLOC_SIZE((size_t)capacity);
        if (!set)
            break;
        bool known = sched_getaffinity(0, bytes, set) == 0;
        if (known) {
            cores = mgpu_allocate((size_t)CPU_COUNT_S(bytes, set), sizeof *cores);
            for (int i = 0; i < capacity; i++)
                if (CPU_ISSET_S((size_t)i, bytes, set))
                    cores[(*count)++] = i;
        }
        bool larger = !known && errno == EINVAL; /* the kernel's set is larger */
        CPU_FREE(set);
        if (!larger)
            break;
    }
    return cores;
}

int mgpu_cores_available(char *why, size_t capacity)
{
    int allowed;
    free(mgpu_cores_allowed(&allowed));
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (allowed < 1)
        allowed = online < 1 ? 1 : (int)online;
    double limit = mgpu_cgroup_limit("/sys/fs/cgroup", "/proc/self/cgroup");
    int cores = limit < allowed ? (int)ceil(limit - 1e-9) : allowed;
    cores = cores < 1 ? 1 : cores;
    int length = snprintf(why, capacity, "%d", cores);
    if (length > 0 && length < (int)capacity && cores < allowed)
        snprintf(why + length, capacity - (size_t)length, " of %d cores (the control group allows %.4g)", allowed, limit);
    else if (length > 0 && length < (int)capacity && allowed < online)
        snprintf(why + length, capacity - (size_t)length, " of %ld cores (the affinity of the process)", online);
    else if (length > 0 && length < (int)capacity)
        snprintf(why + length, capacity - (size_t)length, " core%s", cores == 1 ? "" : "s");
    return cores;
}

/* ---- number of threads */
int mgpu_omp_threads(const char *value)
{
    char *end;
    errno = 0;
    long n = strtol(value, &end, 10);
    if (end == value)
        return -1;
    end += strspn(end, " \t");
    if ((*end && *end != ',') || n < 1) /* the first one of a list is for the outermost level */
        return -1;
    return n > MGPU_MOST_THREADS ? MGPU_MOST_THREADS : (int)n;
}

int mgpu_default_threads(const char *program)
{
    char why[120];
    int cores = mgpu_cores_available(why, sizeof why), wanted = cores;
    const char *value = getenv("OMP_NUM_THREADS");
    if (value && value[strspn(value, " \t")]) {
        wanted = mgpu_omp_threads(value);
        if (wanted < 0)
            mgpu_say("%s: warning: OMP_NUM_THREADS is '%s', no number of threads: ignored", program, value);
    }
    int threads = wanted > 0 && wanted < cores ? wanted : cores;
    return threads < MGPU_MOST_THREADS ? threads : MGPU_MOST_THREADS;
}

int64_t mgpu_device_threads(int64_t threads, int devices, int device)
{
    threads = threads > devices ? threads : devices;
    return threads * (device + 1) / devices - threads * device / devices;
}

int64_t mgpu_device_bytes(const mgpu_device *device, int64_t threads)
{
    return device->arena_bytes + (threads - 1) * device->work_bytes;
}
