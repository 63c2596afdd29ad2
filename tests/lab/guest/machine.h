// SPDX-License-Identifier: LGPL-2.1-or-later
// What a zone says of itself and of its disk, for the lab's cases about forks: who it is, and what
// is on its disk. Called by zone_workload; each answer is measured when asked for, and begins with
// the command's name and "ok" or "FAILED".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace xenpack::lab {

// "who ok name=HOSTNAME random=32HEX machine=ID mac=MAC address=IPV4 generation=UUID", "-" for what
// it has not. Its random bytes are the kernel's, fresh ones each time.
std::string who();

// Fills the 4 KiB block of that number on /dev/xvda with `tag` over and over, past all caches.
std::string disk_write(std::uint64_t block, std::string_view tag);

// "disk-read ok block=N tag=TAG": the first word of that block, read past all caches.
std::string disk_read(std::uint64_t block);

}  // namespace xenpack::lab
