// A text that is shown while its tokens come.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace shoehorn {

// Shows what is decoded so far up to its last space or line end: a word, and a character of several tokens, may still
// change. Not thread-safe.
class GrowingText {
 public:
  // `decode` gives the text of all tokens so far; `show` gets the text piece by piece.
  GrowingText(std::function<std::string(std::span<const int32_t> tokens)> decode,
              std::function<void(const std::string& piece)> show);

  void add(int32_t token);
  // Shows the rest. If the decoder changed what it gave before, the whole text, on a line of its own.
  void finish();

 private:
  void show(const std::string& piece);

  std::function<std::string(std::span<const int32_t> tokens)> decode_;
  std::function<void(const std::string& piece)> show_;
  std::vector<int32_t> tokens_;
  std::string shown_;
};

}  // namespace shoehorn
