/* near.h: page-locked memory beside the GPU that uses it. */
#ifndef MGPU_NEAR_H
#define MGPU_NEAR_H

#include <sched.h>
#include <stdbool.h>

#define MGPU_PCI_DEVICES "/sys/bus/pci/devices"
/* The calling thread goes to the cores beside the GPU at that place of the bus, as far as it may; root: MGPU_PCI_DEVICES. false: it stays.
 * before: where mgpu_go_back takes it again */
bool mgpu_go_near(const char *root, const char *bus, cpu_set_t *before);
void mgpu_go_back(const cpu_set_t *before);
#endif
