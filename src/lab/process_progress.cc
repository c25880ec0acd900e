#include "lab/process_progress.h"

#include <iostream>
#include <memory>
#include <optional>

#include "train/progress.h"

namespace shoehorn {

RunProgress show_progress(const std::string& label) {
  return [label, bar = std::make_shared<std::optional<Progress>>()](int64_t done, int64_t of,
                                                                    const std::string& line) {
    if (!*bar) bar->emplace(label, 0, of, detect_terminal(stderr, std::cerr));
    if (!line.empty()) (*bar)->log_line(line);
    (*bar)->update(done, 0);
  };
}

}  // namespace shoehorn
