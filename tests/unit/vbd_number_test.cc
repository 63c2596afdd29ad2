// SPDX-License-Identifier: LGPL-2.1-or-later
// The numbers of virtual disks, by the table of xen-vbd-interface(7).
#include "plugin/libxl/vbd_number.h"

#include <gtest/gtest.h>

#include <string>

namespace xenpack {
namespace {

TEST(VbdNumber, IsThatOfXensTable) {
    struct Named {
        const char* vdev;
        std::uint32_t number;
    };
    for (const auto& [vdev, number] :
         {Named{"xvda", 51712}, Named{"xvda1", 51713}, Named{"xvdb", 51728}, Named{"xvdp15", 51967},
          Named{"xvdq", 268439552}, Named{"xvda16", 268435472}, Named{"xvdaa", 268442112},
          Named{"d0", 51712}, Named{"d1p2", 51730}, Named{"d16", 268439552}, Named{"sda", 2048},
          Named{"sdb3", 2067}, Named{"sdp15", 2303}, Named{"hda", 768}, Named{"hdb1", 833},
          Named{"hdc", 5632}, Named{"hdd63", 5759}}) {
        EXPECT_EQ(vbd_number(vdev), number) << vdev;
    }
}

TEST(VbdNumber, IsGivenToNothingElse) {
    for (const char* vdev : {"",
                             "xvd",
                             "xvda0",
                             "xvda01",
                             "xvda1x",
                             "xvda-1",
                             "xvdA",
                             "d",
                             "d1p",
                             "dp1",
                             "d0p0",
                             "sdq",
                             "sda16",
                             "hde",
                             "hda64",
                             "xvda256",
                             "xvda4294967297",
                             "xvdzzzzzzz",
                             "d4294967296",
                             "51712",
                             "/dev/xvda"}) {
        EXPECT_EQ(vbd_number(vdev), std::nullopt) << vdev;
    }
}

}  // namespace
}  // namespace xenpack
