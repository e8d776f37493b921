/* device_host.h: devices that are a part of this machine's memory and compute on its cores. */
#ifndef MGPU_DEVICE_HOST_H
#define MGPU_DEVICE_HOST_H

#include "runtime/engine/device.h"

extern const DeviceKind mgpu_device_host;
#endif
