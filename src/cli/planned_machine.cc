#include "cli/planned_machine.h"

#include <filesystem>

#include "base/child_process.h"
#include "base/error.h"
#include "exec/backends.h"
#include "io/file.h"

namespace shoehorn {

namespace {

std::filesystem::path catalog() {
  const std::filesystem::path program = own_program();
  for (const char* place : {"../devices", "../share/shoehorn/devices"}) {
    std::filesystem::path directory = (program.parent_path() / place).lexically_normal();
    if (path_exists(directory)) return directory;
  }
  throw user_error(
      "[--machine_profile] expected the folder devices beside the build of {}, got nothing there",
      program.string());
}

}  // namespace

ArgumentSpec machine_profile_row() {
  return {
      .name = "machine_profile",
      .kind = ArgumentKind::kText,
      .standard = std::string(),
      .value = "NAME|FILE",
      .help =
          "plan for another machine: one of the catalogue, as A100 or rtx-4090, or the file that `shoehorn env --json` "
          "wrote there"};
}

PlannedMachine open_planned_machine(const std::string& name, const TrainingArguments& args) {
  if (name.empty()) return {make_backend()};
  PlannedMachine planned;
  OtherMachine machine;
  if (path_exists(name)) {
    machine = load_other_machine(name);
  } else {
    planned.device = find_device(load_devices(catalog()), name, "--machine_profile");
    machine = machine_of(*planned.device);
  }
  if (args.num_threads) machine.profile.threads = static_cast<int>(*args.num_threads);
  planned.backend = make_backend_for(machine);
  return planned;
}

}  // namespace shoehorn
