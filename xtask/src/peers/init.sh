#!/bin/busybox sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# First process of a guest: loads what /modules/order names, runs /case.sh, says how that ended, and powers off.
/bin/busybox mkdir -p /proc /sys /dev /tmp /sbin /usr/sbin
/bin/busybox --install -s /bin
export PATH=/usr/bin:/bin:/usr/sbin:/sbin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
while read -r module; do
    insmod "/modules/$module.ko" || echo "guest: $module does not load"
done < /modules/order
sh /case.sh
echo "guest: case ended with $?"
poweroff -f
