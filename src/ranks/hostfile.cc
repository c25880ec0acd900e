#include "ranks/hostfile.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/rounding.h"

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

[[noreturn]] void throw_no_hosts(const std::string& name) {
  throw user_error("[--hostfile {}] expected slots of hosts, NAME slots=N a line, got none", name);
}

}  // namespace

std::vector<HostLine> lines_of_hosts(const std::string& text, const std::string& name) {
  constexpr int64_t kMostOfAHost = 1 << 20;
  std::vector<HostLine> hosts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line = line.substr(0, line.find('#'));
    std::string host;
    if (!(std::istringstream(line) >> host)) continue;
    const std::optional<std::string> slots = slots_in(line);
    const std::optional<int64_t> number = slots ? number_of_slots(*slots) : std::nullopt;
    if (slots && (!number || *number > kMostOfAHost))
      throw user_error("[--hostfile {}] expected a whole number of slots of '{}', got '{}'", name, host,
                       *slots);
    hosts.push_back({std::move(host), number, std::move(line)});
  }
  return hosts;
}

std::vector<std::string> names_of_hosts(const std::vector<HostLine>& lines) {
  std::vector<std::string> names;
  for (const HostLine& line : lines) {
    if (std::ranges::find(names, line.host) == names.end()) names.push_back(line.host);
  }
  return names;
}

std::vector<HostLine> without_hosts(std::vector<HostLine> lines, const std::vector<std::string>& names) {
  std::erase_if(lines,
                [&](const HostLine& line) { return std::ranges::find(names, line.host) != names.end(); });
  return lines;
}

std::string text_of_hosts(const std::vector<HostLine>& lines) {
  std::string text;
  for (const HostLine& line : lines) text += line.line + "\n";
  return text;
}

int64_t ranks_that_are_left(int64_t ranks, const std::vector<HostLine>& all,
                            const std::vector<HostLine>& left) {
  int64_t slots = 0;
  bool are_known = true;
  for (const HostLine& line : left) {
    are_known = are_known && line.slots;
    slots += line.slots.value_or(0);
  }
  if (!are_known)
    slots = ceil_divide(ranks * std::ssize(names_of_hosts(left)), std::ssize(names_of_hosts(all)));
  return std::clamp<int64_t>(slots, 1, ranks);
}

int64_t slots_of_hosts(const std::string& text, const std::string& name) {
  int64_t all = 0;
  for (const HostLine& line : lines_of_hosts(text, name)) {
    if (!line.slots) {
      throw user_error(
          "[--hostfile {}] expected slots=N of each host, got '{}' without; give them, or --nproc_per_node, the ranks in all",
          name, line.host);
    }
    all += *line.slots;
  }
  if (all == 0) throw_no_hosts(name);
  return all;
}

std::string hosts_with_slots(const std::string& text, const std::string& name) {
  std::string hosts;
  for (const HostLine& line : lines_of_hosts(text, name)) {
    if (line.slots == 0) continue;
    hosts += (hosts.empty() ? "" : ",") + line.host;
    if (line.slots) hosts += ":" + std::to_string(*line.slots);
  }
  if (hosts.empty()) throw_no_hosts(name);
  return hosts;
}

}  // namespace shoehorn
