// What other processes used of this process's processors while something was measured.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace shoehorn {

class OtherLoad {
 public:
  struct Sources {
    std::function<std::optional<double>()> busy_seconds = {};  // unset: allowed_busy_seconds()
    std::function<double()> own_seconds = {};                  // unset: processor_use()
    std::function<double()> clock_seconds = {};                // unset: the steady clock
  };

  // Begins to watch.
  OtherLoad() : OtherLoad(Sources{}) {}
  explicit OtherLoad(Sources sources);

  // How many processors others used on average since it began. nullopt if the system does not say.
  std::optional<double> processors() const;

 private:
  Sources sources_;
  std::optional<double> busy_before_;
  double own_before_ = 0;
  double began_ = 0;
};

// "other processes used 1.3 of 2 processors", if that took something from `threads` threads of ours; else "".
std::string other_load_text(std::optional<double> others, int64_t threads, int64_t processors);

}  // namespace shoehorn
