/* numa.c: page-locked memory on the NUMA node of the GPU that uses it. A copy to the memory of another node uses the link between
 * the nodes, which all GPUs of a node share. Memory is allocated on the node of the core that the thread runs on, so the thread
 * is moved to a core of the GPU's node (Linux: /sys/bus/pci/devices/BUS/local_cpulist), allocates, and is moved back. If that is
 * unknown or not allowed, memory is allocated anywhere. */
#include "runtime/cuda/numa.h"

#include <stdio.h>
#include <stdlib.h>

/* Parses "0-3,8". */
static bool read_cores(const char *text, cpu_set_t *set)
{
    CPU_ZERO(set);
    for (char *end; *text && *text != '\n'; text = end + (*end == ',')) {
        long first = strtol(text, &end, 10), last = first;
        if (end == text || first < 0)
            return false;
        if (*end == '-')
            last = strtol(text = end + 1, &end, 10);
        if (end == text || last < first || last >= CPU_SETSIZE || (*end && *end != ',' && *end != '\n'))
            return false;
        for (long core = first; core <= last; core++)
            CPU_SET((size_t)core, set);
    }
    return CPU_COUNT(set) > 0;
}

static bool find_cores(const char *root, const char *bus, cpu_set_t *set)
{
    char path[300], text[4096] = "";
    snprintf(path, sizeof path, "%s/%s/local_cpulist", root, bus);
    FILE *f = fopen(path, "re");
    bool known = f && fgets(text, sizeof text, f) && read_cores(text, set);
    if (f)
        fclose(f);
    return known;
}

bool mgpu_bind_to_node(const char *root, const char *bus, cpu_set_t *before)
{
    cpu_set_t beside, both;
    if (!find_cores(root, bus, &beside) || sched_getaffinity(0, sizeof *before, before) != 0)
        return false;
    CPU_AND(&both, &beside, before);
    return CPU_COUNT(&both) > 0 && sched_setaffinity(0, sizeof both, &both) == 0;
}

void mgpu_go_back(const cpu_set_t *before) { sched_setaffinity(0, sizeof *before, before); }
