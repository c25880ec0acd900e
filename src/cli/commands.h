// The commands of the program. Each parses its flags, calls the library and prints the result. command_list.h has all of
// them in one list.
#pragma once

#include <string>
#include <vector>

#include "arguments/argument_help.h"

namespace shoehorn {

// Runs the command that `words` name; prints errors to standard error. Returns the exit code.
int run_program(const std::vector<std::string>& words);

// Each returns the exit code, and throws UserError and SystemError.
int run_train(const std::vector<std::string>& words);
int run_launch(const std::vector<std::string>& words);
int run_eval(const std::vector<std::string>& words);
int run_predict(const std::vector<std::string>& words);
int run_plan(const std::vector<std::string>& words);
int run_fit(const std::vector<std::string>& words);
int run_anatomy(const std::vector<std::string>& words);
int run_bench_step(const std::vector<std::string>& words);
int run_bench_batch(const std::vector<std::string>& words);
int run_bench_ladder(const std::vector<std::string>& words);
int run_bench_quality(const std::vector<std::string>& words);
int run_bench_parallel(const std::vector<std::string>& words);
int run_generate(const std::vector<std::string>& words);
int run_tokenizer(const std::vector<std::string>& words);
int run_tokenizer_train(const std::vector<std::string>& words);
int run_compare(const std::vector<std::string>& words);
int run_calibrate(const std::vector<std::string>& words);
int run_topo(const std::vector<std::string>& words);
int run_env(const std::vector<std::string>& words);
int run_completion(const std::vector<std::string>& words);
int run_man(const std::vector<std::string>& words);

// What the commands' help is made of.
CommandHelp help_of_train();
CommandHelp help_of_launch();
CommandHelp help_of_eval();
CommandHelp help_of_predict();
CommandHelp help_of_plan();
CommandHelp help_of_fit();
CommandHelp help_of_anatomy();
CommandHelp help_of_bench_step();
CommandHelp help_of_bench_batch();
CommandHelp help_of_bench_ladder();
CommandHelp help_of_bench_quality();
CommandHelp help_of_bench_parallel();
CommandHelp help_of_generate();
CommandHelp help_of_tokenizer();
CommandHelp help_of_tokenizer_train();
CommandHelp help_of_compare();
CommandHelp help_of_calibrate();
CommandHelp help_of_topo();
CommandHelp help_of_env();
CommandHelp help_of_completion();
CommandHelp help_of_man();

}  // namespace shoehorn
