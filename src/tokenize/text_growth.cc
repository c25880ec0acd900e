#include "tokenize/text_growth.h"

#include "base/error.h"

namespace shoehorn {
namespace {

constexpr size_t kMebibyte = 1 << 20;

void check(size_t before, size_t after, size_t most) {
  if (after > most)
    throw user_error(
        "[tokenizer.json] expected parts that make a text of {} bytes at most {} bytes long, got {}", before,
        most, after);
}

}  // namespace

void check_chain_growth(size_t before, size_t after) {
  check(before, after, kMebibyte + 1000 * before);
}

void check_replaced_size(size_t before, size_t after) {
  if (after > 16 * kMebibyte) check(before, after, 4 * before);
}

}  // namespace shoehorn
