#include "exec/cpu/collectives/chain_collectives.h"

#include <algorithm>

#include "exec/cpu/collectives/add_message.h"

namespace shoehorn::cpu {

namespace {

// At the chain's ends there is nothing to send, or to receive; who sends waits for the rank that it sends to.
void pass(Communicator& ranks, int32_t to, std::span<const std::byte> sent, int32_t from,
          std::span<std::byte> received) {
  ranks.exchange(to, sent, received.empty() ? to : from, received);
}

}  // namespace

std::vector<std::span<std::byte>> pieces_of(const std::vector<std::span<std::byte>>& tensors,
                                            int64_t most_bytes) {
  std::vector<std::span<std::byte>> pieces;
  for (std::span<std::byte> rest : tensors) {
    while (!rest.empty()) {
      const size_t bytes = std::min(rest.size(), static_cast<size_t>(most_bytes));
      pieces.push_back(rest.first(bytes));
      rest = rest.subspan(bytes);
    }
  }
  return pieces;
}

void broadcast(const ChainCall& call) {
  const bool receives = call.ranks->rank() > 0;
  const bool sends = call.ranks->next() > 0;
  // A rank sends the piece before the one that it receives.
  const size_t behind = receives ? 1 : 0;
  for (size_t step = 0; step < call.pieces.size() + behind; ++step) {
    std::span<const std::byte> sent;
    std::span<std::byte> received;
    if (sends && step >= behind) sent = call.pieces[step - behind];
    if (receives && step < call.pieces.size()) received = call.pieces[step];
    pass(*call.ranks, call.ranks->next(), sent, call.ranks->before(), received);
  }
}

void reduce(const ChainCall& call) {
  const bool receives = call.ranks->next() > 0;
  const bool sends = call.ranks->rank() > 0;
  const size_t behind = receives ? 1 : 0;
  for (size_t step = 0; step < call.pieces.size() + behind; ++step) {
    std::span<const std::byte> sent;
    std::span<std::byte> received;
    if (sends && step >= behind) sent = call.pieces[step - behind];
    if (receives && step < call.pieces.size()) received = {call.received, call.pieces[step].size()};
    pass(*call.ranks, call.ranks->before(), sent, call.ranks->next(), received);
    if (!received.empty()) add_message<float>(received.data(), call.pieces[step].data(), received.size());
  }
}

}  // namespace shoehorn::cpu
