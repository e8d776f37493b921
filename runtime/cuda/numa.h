/* numa.h: allocates page-locked memory on the NUMA node of the GPU that uses it. */
#ifndef MGPU_NEAR_H
#define MGPU_NEAR_H

#include <sched.h>
#include <stdbool.h>

#define MGPU_PCI_DEVICES "/sys/bus/pci/devices"
/* Moves the calling thread to the cores of the NUMA node of the GPU with this bus id, as far as its affinity allows. root:
 * MGPU_PCI_DEVICES. Returns false if it is not moved. before: the previous affinity, for mgpu_go_back. */
bool mgpu_bind_to_node(const char *root, const char *bus, cpu_set_t *before);
void mgpu_go_back(const cpu_set_t *before);
#endif
