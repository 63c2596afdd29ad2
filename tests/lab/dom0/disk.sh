#!/bin/bash
# SPDX-License-Identifier: LGPL-2.1-or-later
# What libxl runs when a zone's disk comes or goes: ties the backend to a loop device on the file
# that the disk's target= names. Called by libxl, with XENBUS_PATH; see zone_create in lab.sh. (Xen's
# own script wants programs that the lab's dom0 has not.)

attach() {
    local file loop
    file=$(xenstore-read "$XENBUS_PATH/params") && loop=$(losetup -f) && losetup -r "$loop" "$file" || return
    xenstore-write "$XENBUS_PATH/node" "$loop" \
        "$XENBUS_PATH/physical-device" "$(stat -c %t:%T "$loop")" \
        "$XENBUS_PATH/physical-device-path" "$loop" "$XENBUS_PATH/hotplug-status" connected
}

case $1 in
    add)
        attach || xenstore-write "$XENBUS_PATH/hotplug-error" "no loop device for it" \
            "$XENBUS_PATH/hotplug-status" error
        ;;
    remove) losetup -d "$(xenstore-read "$XENBUS_PATH/node")" ;;
esac
