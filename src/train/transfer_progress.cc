#include "train/transfer_progress.h"

#include <algorithm>
#include <utility>

#include "state/adapter_weights.h"

namespace shoehorn {

namespace {

int64_t local_bytes(const StateTable& state, const Parameter& parameter) {
  const int64_t width = dtype_bytes(state.storage(parameter.storage).type.dtype);
  const int64_t rest = parameter.rest.valid() ? dtype_bytes(state.storage(parameter.rest).type.dtype) : 0;
  return parameter.local_elements() * (width + rest);
}

}  // namespace

int64_t transfer_bytes(const Session& session, const TransferContents& contents) {
  const StateTable& state = session.state();
  int64_t bytes = 0;
  if (contents.adapters_alone) {
    for (const AdapterTensor& tensor : adapter_file_tensors(session.family()))
      bytes += local_bytes(state, state.parameter(tensor.parameter));
  } else {
    for (const Parameter& parameter : state.parameters()) bytes += local_bytes(state, parameter);
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
