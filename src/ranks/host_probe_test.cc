#include "ranks/host_probe.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <utility>

#include "io/file.h"
#include "io/test_directory.h"

namespace shoehorn {
namespace {

// A script stands for mpirun: it says which hosts it was asked to reach, by the engine's own flag.
TEST(HostProbe, LostHostsAreThoseThatStartNothingInTime) {
  const TestDirectory directory;
  for (const auto& [engine, flag] :
       {std::pair{MpiEngine::kOpenMpi, "--host"}, std::pair{MpiEngine::kMpich, "-hosts"}}) {
    const std::filesystem::path mpirun =
        directory.write(flag, fmt::format("#!/bin/sh\n[ \"$1 $3 $4 $5\" = '{} -n 1 true' ] || exit 9\n"
                                          "case $2 in down) exit 1 ;; frozen) exec sleep 60 ;; esac\n",
                                          flag));
    std::filesystem::permissions(mpirun, std::filesystem::perms::owner_all);
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
