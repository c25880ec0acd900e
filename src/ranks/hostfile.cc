#include "ranks/hostfile.h"

#include <charconv>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"

namespace shoehorn {

namespace {

// Of "NAME slots=N", the number, which may have spaces before and behind its sign; none if the line has no slots.
std::optional<std::string> slots_in(const std::string& line) {
  std::string spaced;
  for (const char c : line) spaced += c == '=' ? std::string(" = ") : std::string(1, c);
  std::istringstream words(spaced);
  std::string before, word;
  while (words >> word) {
    if (word == "=" && before == "slots") return words >> word ? word : std::string();
    before = word;
  }
  return std::nullopt;
}

std::optional<int64_t> number_of_slots(std::string_view text) {
  int64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || rest != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

struct HostLine {
  std::string host;
  std::optional<int64_t> slots = {};  // none: the line does not say
};

// UserError for a number of slots that is none.
std::vector<HostLine> host_lines(const std::string& text, const std::string& name) {
  constexpr int64_t kMostOfAHost = 1 << 20;
  std::vector<HostLine> hosts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line = line.substr(0, line.find('#'));
    HostLine host;
    if (!(std::istringstream(line) >> host.host)) continue;
    if (const std::optional<std::string> slots = slots_in(line)) {
      host.slots = number_of_slots(*slots);
      if (!host.slots || *host.slots > kMostOfAHost)
        throw user_error("[--hostfile {}] expected a whole number of slots of '{}', got '{}'", name,
                         host.host, *slots);
    }
    hosts.push_back(std::move(host));
  }
  return hosts;
}

[[noreturn]] void throw_no_hosts(const std::string& name) {
  throw user_error("[--hostfile {}] expected slots of hosts, NAME slots=N a line, got none", name);
}

}  // namespace

int64_t slots_of_hosts(const std::string& text, const std::string& name) {
  int64_t all = 0;
  for (const auto& [host, slots] : host_lines(text, name)) {
    if (!slots) {
      throw user_error(
          "[--hostfile {}] expected slots=N of each host, got '{}' without; give them, or --nproc_per_node, the ranks in all",
          name, host);
    }
    all += *slots;
  }
  if (all == 0) throw_no_hosts(name);
  return all;
}

std::string hosts_with_slots(const std::string& text, const std::string& name) {
  std::string hosts;
  for (const auto& [host, slots] : host_lines(text, name)) {
    if (slots == 0) continue;
    hosts += (hosts.empty() ? "" : ",") + host;
    if (slots) hosts += ":" + std::to_string(*slots);
  }
  if (hosts.empty()) throw_no_hosts(name);
  return hosts;
}

}  // namespace shoehorn
