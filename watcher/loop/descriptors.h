// SPDX-License-Identifier: LGPL-2.1-or-later
// How many files this process may have open. xenpackd's main calls it once, before it has any that
// matter. It must not lower anything.
#pragma once

namespace xenpack {

// Each client takes one, each owner of a reservation another: this is twice what all that are let
// in could take together (kHttpMaxWaiting, kMostReservations). What is usual is 1024.
inline constexpr unsigned kEnoughDescriptors = 4096;

// Raises the soft limit to kEnoughDescriptors, or to the hard limit where that is lower. Whatever
// it is then, the daemon goes on: clients are let in more slowly where it is low.
void raise_descriptor_limit();

}  // namespace xenpack
