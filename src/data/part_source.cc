#include "data/part_source.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace shoehorn {

PartSource::PartSource(std::shared_ptr<const SampleSource> whole, int64_t begin, int64_t end)
    : whole_(std::move(whole)), begin_(begin) {
  CHECK(0 <= begin && begin < end && end <= whole_->distinct_size(), "samples {} to {} of {}", begin, end,
        whole_->distinct_size());
  facts_ = whole_->facts();
  facts_.size = end - begin;
  for (const TokenStream stream : kTokenStreams) {
    StreamFacts& facts = facts_.of(stream);
    if (facts.tokens == 0) continue;
    facts.tokens = facts.longest = 0;
    facts.shortest = std::numeric_limits<int64_t>::max();
    for (int64_t sample = 0; sample < facts_.size; ++sample) {
      const int64_t tokens = length(sample, stream);
      facts.tokens += tokens;
      facts.longest = std::max(facts.longest, tokens);
      facts.shortest = std::min(facts.shortest, tokens);
    }
  }
  facts_.most_documents = 1;
  facts_.longest_document = 0;
  for (int64_t sample = 0; sample < facts_.size; ++sample) {
    const int64_t documents = document_count(sample);
    facts_.most_documents = std::max(facts_.most_documents, documents);
    for (int64_t document = 0; document < documents; ++document)
      facts_.longest_document = std::max(facts_.longest_document, document_length(sample, document));
  }
}

int64_t PartSource::memory_bytes() const {
  const int64_t bytes = whole_->memory_bytes();
  const int64_t samples = whole_->distinct_size();
  return bytes * (begin_ + facts_.size) / samples - bytes * begin_ / samples;
}

}  // namespace shoehorn
