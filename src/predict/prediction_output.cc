#include "predict/prediction_output.h"

#include <cerrno>
#include <cstdio>

#include "predict/prediction_format.h"

namespace shoehorn {

PredictionOutput::PredictionOutput(const std::filesystem::path& path) {
  if (!is_standard_output(path)) file_.emplace(path);
}

void PredictionOutput::write(std::string_view text) {
  if (file_) {
    file_->write(text);
    return;
  }
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw_system_error("standard output", "write predictions", errno);
}

void PredictionOutput::finish() {
  if (file_) file_->commit();
}

}  // namespace shoehorn
