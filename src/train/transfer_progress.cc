#include "train/transfer_progress.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "passes/program_family.h"

namespace shoehorn {

namespace {

bool is_trained_with_adapters(const Session& session, const Parameter& parameter) {
  const std::vector<ParameterId>& saved = session.family().adapters.saved;
  const auto is_it = [&](ParameterId id) { return session.state().parameter(id).name == parameter.name; };
  return parameter.is_adapter || std::any_of(saved.begin(), saved.end(), is_it);
}

}  // namespace

int64_t transfer_bytes(const Session& session, const TransferContents& contents) {
  const StateTable& state = session.state();
  int64_t bytes = 0;
  for (const Parameter& parameter : state.parameters()) {
    if (contents.adapters_alone && !is_trained_with_adapters(session, parameter)) continue;
    const int64_t width = dtype_bytes(state.storage(parameter.storage).type.dtype);
    const int64_t rest = parameter.rest.valid() ? dtype_bytes(state.storage(parameter.rest).type.dtype) : 0;
    bytes += parameter.local_elements() * (width + rest);
  }
  if (!contents.optimizer_states) return bytes;
  for (const Storage& storage : state.storages())
    bytes += storage.role == Role::kOptimizerState ? storage.type.bytes() : 0;
  return bytes;
}

TransferProgress::TransferProgress(std::string label, Session& session, const TransferContents& contents,
                                   const ProgressOptions& options)
    : executor_(session.executor()),
      progress_(std::move(label), 0, std::max<int64_t>(1, transfer_bytes(session, contents)),
                beside_main_work(options, ProgressUnit::kBytes)) {
  executor_.set_host_access_observer([this](int64_t bytes) {
    done_ += bytes;
    progress_.update(done_, done_);
  });
}

TransferProgress::~TransferProgress() {
  executor_.set_host_access_observer({});
}

}  // namespace shoehorn
