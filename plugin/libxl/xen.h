// SPDX-License-Identifier: LGPL-2.1-or-later
// Xen's own headers for C++: the one place that includes libxl, libxc and the libraries below them.
// Every file of this plugin gets them from here. It must not include xenstore.h: the store is the
// watcher's.
//
// The headers are C without guards for C++, and xenctrl.h needs GNU extensions (-std=gnu++20).
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wshadow"
extern "C" {
#include <libxl.h>
#include <libxl_event.h>
#include <libxl_utils.h>
#include <xenctrl.h>
#include <xenevtchn.h>
#include <xenforeignmemory.h>
#include <xenguest.h>
#include <xentoollog.h>

// Needs what xenctrl.h defines.
#include <xen/hvm/params.h>
#include <xen/vm_event.h>
}
#pragma GCC diagnostic pop
