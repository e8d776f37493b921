/* device_host.h: devices with a part of the host's memory that compute on its cores. */
#ifndef MGPU_DEVICE_HOST_H
#define MGPU_DEVICE_HOST_H

#include "runtime/engine/device.h"

extern const DeviceKind mgpu_device_host;
#endif
