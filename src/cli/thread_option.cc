#include "cli/thread_option.h"

#include <cstdint>
#include <optional>

#include "arguments/argument_table.h"
#include "base/error.h"
#include "base/processors.h"
#include "exec/backend/thread_count.h"

namespace shoehorn {

ArgumentSpec num_threads_row() {
  const ArgumentSpec* const row = find_argument("num_threads");
  CHECK(row != nullptr, "the table has no num_threads");
  return {.name = row->name, .kind = ArgumentKind::kInteger, .help = row->help};
}

int use_given_threads(const CommandOptions& given) {
  std::optional<int64_t> threads;
  if (given.is_given("num_threads")) threads = given.integer_at_least("num_threads", 1);
  if (threads > kMostThreads)
    throw user_error("[--num_threads] expected at most {}, got {}", kMostThreads, *threads);
  return use_threads(threads).threads;
}

}  // namespace shoehorn
