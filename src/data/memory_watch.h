// Watches the memory that a data set takes while it is read into it. Data that do not fit are refused, with a way out, where
// the system would end the process, or a plan be refused when all has been tokenized.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/memory_limit.h"
#include "data/data_files.h"

namespace shoehorn {

class MemoryWatch {
 public:
  // `budget_bytes`: what the whole process may hold, as --memory_budget. Unset: what the limits of the system
  // (base/memory_limit.h) leave, less a reserve for what is under way between two looks at them.
  MemoryWatch(const DataFiles& files, std::optional<int64_t> budget_bytes);

  // Call it before a table of the files is read whole. UserError, which names the files and the budget: not even the cells that
  // it is certain to have fit. Nothing is certain of compressed files, of JSON, whose keys and escapes are left out, and of
  // standard input.
  void check_table() const;

  // Call it often: `held_bytes` are held of what was read so far, `texts` rows or lines. The system is asked where they grew by
  // some MiB, and not before they are some: what so few decide, the plan of the run decides, which says more. UserError,
  // which names the files, what was read and the budget: nothing is left.
  void check(int64_t held_bytes, int64_t texts);

 private:
  struct Room {
    int64_t left_bytes = 0;
    std::string budget;  // for people
  };

  Room room() const;

  DataFiles files_;
  std::optional<int64_t> budget_bytes_;
  int64_t next_look_bytes_;
};

}  // namespace shoehorn
