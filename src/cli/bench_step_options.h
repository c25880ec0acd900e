// What `bench step` takes besides flags of train.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arguments/argument_table.h"
#include "arguments/command_options.h"

namespace shoehorn {

const std::vector<ArgumentSpec>& bench_step_option_rows();

struct BenchStepArguments {
  CommandOptions options;
  ParsedArguments run;
};

// `words` behind the command's name; `ranks`: that take the steps. UserError for flags that are wrong.
BenchStepArguments parse_bench_step(const std::vector<std::string>& words, int64_t ranks);

}  // namespace shoehorn
