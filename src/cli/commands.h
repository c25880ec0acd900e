// The commands of the program. Each parses its flags, calls the library and prints; nothing else lives here.
#pragma once

#include <string>
#include <vector>

namespace shoehorn {

// Runs the command that the words name; prints errors to standard error. Returns the exit code.
int run_program(const std::vector<std::string>& words);

// Each throws UserError and SystemError; returns the exit code.
int run_train(const std::vector<std::string>& words);
int run_eval(const std::vector<std::string>& words);
int run_predict(const std::vector<std::string>& words);
int run_plan(const std::vector<std::string>& words);
int run_anatomy(const std::vector<std::string>& words);
int run_bench_step(const std::vector<std::string>& words);
int run_bench_batch(const std::vector<std::string>& words);
int run_bench_ladder(const std::vector<std::string>& words);
int run_bench_quality(const std::vector<std::string>& words);
int run_tokenizer(const std::vector<std::string>& words);
int run_env(const std::vector<std::string>& words);

}  // namespace shoehorn
