#include "exec/backends.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace shoehorn {
namespace {

TEST(Backends, AnotherNameIsRefusedWithThoseThereAre) {
  for (const std::string& name : backend_names()) EXPECT_EQ(make_backend(name)->machine().backend, name);
  try {
    make_backend("cuda");
    FAIL() << "made";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("expected one of cpu, got 'cuda'"), std::string::npos)
        << error.what();
  }
}

TEST(Backends, AProfileOfThisMachineIsPlannedAsItRuns) {
  OtherMachine machine{.profile = this_machine()};
  EXPECT_TRUE(make_backend_for(machine)->can_run());
  machine.profile.cpu = "another name";
  EXPECT_TRUE(make_backend_for(machine)->can_run()) << "its name decides nothing";
}

TEST(Backends, WhateverDecidesBytesMakesAnotherMachine) {
  const auto can_run = [](void (*change)(MachineProfile&)) {
    OtherMachine machine{.profile = this_machine()};
    change(machine.profile);
    return make_backend_for(machine)->can_run();
  };
  EXPECT_FALSE(can_run([](MachineProfile& p) { p.isa += "?"; }));
  EXPECT_FALSE(can_run([](MachineProfile& p) { p.products += "?"; }));
  EXPECT_FALSE(can_run([](MachineProfile& p) { ++p.threads; }));
  EXPECT_FALSE(can_run([](MachineProfile& p) { p.bf16_products = !p.bf16_products; }));
  EXPECT_FALSE(can_run([](MachineProfile& p) { p.fp16_products = !p.fp16_products; }));
}

}  // namespace
}  // namespace shoehorn
