// The progress of loading and saving: how many bytes of weights and optimizer states the host has read or written.
#pragma once

#include <cstdint>
#include <string>

#include "session/session.h"
#include "train/progress.h"

namespace shoehorn {

// What passes between a session's arenas and files.
struct TransferContents {
  bool adapters_alone = false;  // of a model with adapters only what their file has
  bool optimizer_states = false;
};

// Bytes of that in the arenas; those that two tensors of an adapter's file stand for count twice.
int64_t transfer_bytes(const Session& session, const TransferContents& contents);

// While it lives, shows what is transferred (beside_main_work), as far as the transfers are the session's only host
// access. One at a time of a session, which must be reserved and outlive it.
class TransferProgress {
 public:
  TransferProgress(std::string label, Session& session, const TransferContents& contents,
                   const ProgressOptions& options);
  ~TransferProgress();
  TransferProgress(const TransferProgress&) = delete;
  TransferProgress& operator=(const TransferProgress&) = delete;

 private:
  Executor& executor_;
  Progress progress_;
  int64_t done_ = 0;
};

}  // namespace shoehorn
