// The commands of the program. Each parses its flags, calls the library and prints the result.
#pragma once

#include <string>
#include <vector>

namespace shoehorn {

// Runs the command that `words` name; prints errors to standard error. Returns the exit code.
int run_program(const std::vector<std::string>& words);

// Each returns the exit code, and throws UserError and SystemError.
int run_train(const std::vector<std::string>& words);
int run_eval(const std::vector<std::string>& words);
int run_predict(const std::vector<std::string>& words);
int run_plan(const std::vector<std::string>& words);
int run_anatomy(const std::vector<std::string>& words);
int run_bench_step(const std::vector<std::string>& words);
int run_bench_batch(const std::vector<std::string>& words);
int run_bench_ladder(const std::vector<std::string>& words);
int run_bench_quality(const std::vector<std::string>& words);
int run_generate(const std::vector<std::string>& words);
int run_tokenizer(const std::vector<std::string>& words);
int run_tokenizer_train(const std::vector<std::string>& words);  // `tokenizer train`
int run_compare(const std::vector<std::string>& words);
int run_env(const std::vector<std::string>& words);

}  // namespace shoehorn
