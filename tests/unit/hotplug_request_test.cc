// SPDX-License-Identifier: LGPL-2.1-or-later
// What libxl hands to a hotplug script is read as it is meant, and refused where it is not.
#include "hotplug/request.h"

#include <gtest/gtest.h>

namespace xenpack::hotplug {
namespace {

constexpr const char* kUuid = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";

TEST(HotplugRequest, ReadsWhichBackendIsMeant) {
    const auto whole = parse_backend("/local/domain/0/backend/vbd/5/51712");
    ASSERT_TRUE(whole);
    EXPECT_EQ(whole->type, "vbd");
    EXPECT_EQ(whole->domid, 5U);
    EXPECT_EQ(whole->devid, 51712U);
    const auto relative = parse_backend("backend/vif/12/0");
    ASSERT_TRUE(relative);
    EXPECT_EQ(relative->type, "vif");
    EXPECT_EQ(relative->domid, 12U);
    EXPECT_EQ(relative->devid, 0U);
}

TEST(HotplugRequest, RefusesWhatIsNoBackend) {
    for (const char* path :
         {"", "/", "backend/vbd", "backend/vbd/5", "backend/vbd/5/", "vbd/5/51712",
          "backend/vbd/-5/51712", "backend/vbd/5/x", "backend//5/51712", "backend/vbd/5/51712/",
          "backend/vbd/99999999999/0"}) {
        EXPECT_FALSE(parse_backend(path)) << path;
    }
}

TEST(HotplugRequest, ADiskIsItsBaseAlone) {
    const auto params = parse_disk_params("/dev/vg/web");
    ASSERT_TRUE(params);
    EXPECT_EQ(params->base, "/dev/vg/web");
    EXPECT_FALSE(params->overlay);
}

TEST(HotplugRequest, ADiskIsABaseAndAnOverlay) {
    const auto own = parse_disk_params("/srv/web.img;");
    ASSERT_TRUE(own);
    EXPECT_EQ(own->base, "/srv/web.img");
    EXPECT_EQ(own->overlay, "");
    EXPECT_EQ(parse_disk_params("/srv/web.img;job-1.cow")->overlay, "job-1.cow");
    EXPECT_EQ(parse_disk_params("/srv/web.img;/var/lib/xenpack/overlays/a")->overlay, "a");
    EXPECT_EQ(parse_disk_params("/srv/a;b.img;c")->base, "/srv/a;b.img");
}

TEST(HotplugRequest, AnOverlayLeadsNowhereElse) {
    for (const char* overlay :
         {"/etc/passwd", "../x", "..", ".", "a/b", "/var/lib/xenpack/overlays/",
          "/var/lib/xenpack/overlays/../x", "/var/lib/xenpack/overlaysx",
          "/var/lib/xenpack/overlays//x", "a b", "-\n"}) {
        EXPECT_FALSE(parse_disk_params(std::string("/srv/web.img;") + overlay)) << overlay;
    }
    EXPECT_FALSE(parse_disk_params("/srv/web.img;" + std::string(201, 'a')));
}

TEST(HotplugRequest, ABaseIsAnAbsolutePath) {
    EXPECT_FALSE(parse_disk_params(""));
    EXPECT_FALSE(parse_disk_params(";"));
    EXPECT_FALSE(parse_disk_params("web.img"));
    EXPECT_FALSE(parse_disk_params("web.img;x"));
}

TEST(HotplugRequest, NamesAreOfTheDomainAndItsDisk) {
    EXPECT_EQ(parse_vm_path(std::string("/vm/") + kUuid), kUuid);
    EXPECT_EQ(snapshot_name(kUuid, 51712), std::string("xenpack-") + kUuid + "-51712");
    EXPECT_EQ(overlay_path("x"), "/var/lib/xenpack/overlays/x");
    for (const char* vm : {"", "/vm/", "/vm/fork-7", "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0",
                           "/vm/0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0/",
                           "/vm/0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f", "/vm/../../etc/passwd"}) {
        EXPECT_FALSE(parse_vm_path(vm)) << vm;
    }
}

TEST(HotplugRequest, AnOverlayHasRoomForTheWholeDiskInWholeChunks) {
    constexpr std::uint64_t kChunkBytes = kChunkSectors * kSectorBytes;
    for (const std::uint64_t sectors : {1ULL, 31ULL, 32ULL, 33ULL, 2097152ULL, 1ULL << 40}) {
        const std::uint64_t bytes = overlay_bytes(sectors);
        EXPECT_EQ(bytes % kChunkBytes, 0U) << sectors;
        EXPECT_GE(bytes, sectors * kSectorBytes + kChunkBytes) << sectors;
        EXPECT_LT(bytes, sectors * kSectorBytes + 2 * kChunkBytes) << sectors;
    }
}

TEST(HotplugRequest, DeviceNumbersAreHexadecimal) {
    EXPECT_EQ(device_number(7, 3), "7:3");
    EXPECT_EQ(device_number(253, 31), "fd:1f");
}

TEST(HotplugRequest, WhatIsNoForkJoinsAtOnce) {
    EXPECT_TRUE(may_join({}));
    EXPECT_TRUE(may_join({std::nullopt, "g", "h ready"}));
}

TEST(HotplugRequest, AForkJoinsWhenItHasSaidOfItsOwnGenerationThatItIsReady) {
    EXPECT_TRUE(may_join({"complete", kUuid, std::string(kUuid) + " ready"}));
    EXPECT_FALSE(may_join({"building", kUuid, std::nullopt}));
    EXPECT_FALSE(may_join({"building", kUuid, ""}));
    EXPECT_FALSE(may_join({"building", kUuid, "another ready"}));  // its template's own
    EXPECT_FALSE(may_join({"building", kUuid, std::string(kUuid) + " failed x ready"}));
    EXPECT_FALSE(may_join({"building", std::nullopt, " ready"}));
    EXPECT_FALSE(may_join({"building", "", " ready"}));
}

TEST(HotplugRequest, KnowsTheNamesThatInterfacesMayHave) {
    EXPECT_TRUE(is_interface_name("vif12.0"));
    EXPECT_TRUE(is_interface_name("xenbr0"));
    EXPECT_TRUE(is_interface_name(std::string(15, 'a')));
    for (const char* name : {"", ".", "..", "a/b", "a b", "a:b", "a\n", "aaaaaaaaaaaaaaaa"}) {
        EXPECT_FALSE(is_interface_name(name)) << name;
    }
}

TEST(HotplugSnapshot, ItsNamesAreKnownAgain) {
    const std::string uuid = "12345678-9abc-def0-1234-56789abcdef0";
    EXPECT_TRUE(is_snapshot_name(snapshot_name(uuid, 51712)));
    EXPECT_TRUE(is_snapshot_name("xenpack-" + uuid + "-0"));
    for (const std::string& name :
         {std::string(""), std::string("xenpack-"), uuid, "xenpack-" + uuid,
          "xenpack-" + uuid + "-", "xenpack-" + uuid + "-x", "xenpack-" + uuid + "-51712.old",
          "other-" + uuid + "-51712", std::string("data"), "xenpack--" + uuid + "-51712"}) {
        EXPECT_FALSE(is_snapshot_name(name)) << name;
    }
}

}  // namespace
}  // namespace xenpack::hotplug
