/* near_test: to which cores a thread goes that asks for memory beside a GPU, by what the system says of the GPU's place on the
 * bus; and back. */
#include "runtime/cuda/numa.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[200];
static int failures;

static void result(bool good, const char *name)
{
    printf("%s %s\n", good ? "ok" : "not ok", name);
    failures += !good;
}

static void say(const char *cores)
{
    char path[300];
    snprintf(path, sizeof path, "%s/0000:65:00.0", root);
    mkdir(path, 0700);
    strcat(path, "/local_cpulist");
    FILE *f = fopen(path, "w");
    fprintf(f, "%s\n", cores);
    fclose(f);
}

static bool goes(const char *bus, const cpu_set_t *to)
{
    cpu_set_t before, first, now;
    sched_getaffinity(0, sizeof first, &first);
    bool went = mgpu_bind_to_node(root, bus, &before);
    sched_getaffinity(0, sizeof now, &now);
    bool right = went ? to && CPU_EQUAL(&now, to) && CPU_EQUAL(&before, &first) : !to && CPU_EQUAL(&now, &first);
    if (went)
        mgpu_go_back(&before);
    sched_getaffinity(0, sizeof now, &now);
    return right && CPU_EQUAL(&now, &first);
}

int main(void)
{
    static const char *const WRONG[] = {"", "x", "0-", "3-1", "-1", "0;1", "0-99999", "0,,1"};
    cpu_set_t all, one;
    char text[100];
    int core = 0;
    snprintf(root, sizeof root, "%s/near_test.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(root))
        return 3;
    sched_getaffinity(0, sizeof all, &all);
    while (!CPU_ISSET((size_t)core, &all))
        core++;
    CPU_ZERO(&one);
    CPU_SET((size_t)core, &one);
    result(goes("0000:66:00.0", NULL), "a GPU of which nothing is said");
    snprintf(text, sizeof text, "%d", core);
    say(text);
    result(goes("0000:65:00.0", &one), "one core");
    snprintf(text, sizeof text, "%d-%d,1000,1010-1023", core, core);
    say(text);
    result(goes("0000:65:00.0", &one), "cores that the process may not use are left out");
    say("1000-1023");
    result(goes("0000:65:00.0", NULL), "cores that the process may not use, alone");
    say("0-1023");
    result(goes("0000:65:00.0", &all), "all cores");
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        say(WRONG[i]);
        snprintf(text, sizeof text, "'%s' is no list of cores", WRONG[i]);
        result(goes("0000:65:00.0", NULL), text);
    }
    return failures != 0;
}
