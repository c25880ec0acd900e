#include "ranks/host_probe.h"

#include <gtest/gtest.h>

#include "io/file.h"
#include "io/test_directory.h"

namespace shoehorn {
namespace {

// A script stands for mpirun: it says which hosts it was asked to reach.
TEST(HostProbe, LostHostsAreThoseThatStartNothingInTime) {
  const TestDirectory directory;
  const std::filesystem::path mpirun = directory.write(
      "mpirun",
      "#!/bin/sh\ncase \"$1 $3 $4 $5\" in '--host -n 1 true' | '-hosts -n 1 true') ;; *) exit 9 ;; esac\n"
      "case $2 in down) exit 1 ;; frozen) exec sleep 60 ;; esac\n");
  std::filesystem::permissions(mpirun, std::filesystem::perms::owner_all);
  for (const MpiEngine engine : {MpiEngine::kOpenMpi, MpiEngine::kMpich}) {
    const auto lost = [&](const std::vector<std::string>& hosts) {
      return lost_hosts(engine, mpirun.string(), hosts, 1);
    };
    EXPECT_EQ(lost({"a", "frozen", "b", "down"}), (std::vector<std::string>{"frozen", "down"}));
    EXPECT_TRUE(lost({"a"}).empty());
    EXPECT_TRUE(lost({}).empty());
  }
}

}  // namespace
}  // namespace shoehorn
