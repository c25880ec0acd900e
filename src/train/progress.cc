#include "train/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "analysis/step_profile.h"
#include "base/error.h"
#include "base/format.h"

namespace shoehorn {
namespace {

constexpr int64_t kDefaultColumns = 80;
// As long as people like to wait without a word.
constexpr double kPatienceSeconds = 2;
constexpr int64_t kShortestBar = 5;
constexpr int64_t kLongestBar = 40;

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

bool locale_is_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string_view value = environment(name);
    if (value.empty()) continue;
    return value.find("UTF-8") != std::string_view::npos || value.find("utf8") != std::string_view::npos;
  }
  return false;
}

int64_t terminal_columns(int descriptor) {
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kDefaultColumns;
  return size.ws_col;
}

void repeat(std::string& text, std::string_view piece, int64_t count) {
  for (int64_t i = 0; i < count; ++i) text += piece;
}

// `filled` of `cells` cells.
std::string draw_bar(int64_t filled, int64_t cells, const ProgressOptions& options) {
  std::string bar;
  if (options.color) bar += "\x1b[32m";
  repeat(bar, options.unicode ? "━" : "#", filled);
  if (options.color) bar += "\x1b[0m";
  repeat(bar, options.unicode ? "─" : "-", cells - filled);
  return bar;
}

}  // namespace

ProgressOptions detect_terminal(std::FILE* file, std::ostream& stream) {
  const int descriptor = fileno(file);
  ProgressOptions options;
  options.stream = &stream;
  options.terminal = descriptor >= 0 && isatty(descriptor) == 1 && environment("TERM") != "dumb";
  options.color = options.terminal && environment("NO_COLOR").empty();
  options.unicode = locale_is_utf8();
  const int64_t fixed = std::atoll(std::string(environment("COLUMNS")).c_str());
  options.columns = [descriptor, fixed] { return fixed > 0 ? fixed : terminal_columns(descriptor); };
  return options;
}

ProgressOptions beside_main_work(ProgressOptions options, ProgressUnit unit) {
  options.unit = unit;
  options.delay_seconds = kPatienceSeconds;
  options.vanishes = true;
  options.work_of = {};
  return options;
}

Progress::Progress(std::string label, int64_t first_step, int64_t total_steps, ProgressOptions options)
    : label_(std::move(label)),
      first_step_(first_step),
      total_steps_(total_steps),
      options_(std::move(options)),
      step_(first_step) {
  if (!options_.clock_seconds) options_.clock_seconds = now_seconds;
  if (!options_.work_of) options_.work_of = [](int64_t step) { return static_cast<double>(step); };
  if (!options_.columns) options_.columns = [] { return kDefaultColumns; };
  start_seconds_ = options_.clock_seconds();
  updated_seconds_ = start_seconds_;
  shown_seconds_ = options_.terminal ? -std::numeric_limits<double>::infinity() : start_seconds_;
}

Progress::~Progress() {
  try {
    finish();
  } catch (...) {
    // A stream that throws must not end a program that is unwinding.
  }
}

void Progress::update(int64_t step, int64_t samples, std::optional<double> loss) {
  if (is_finished_) return;
  step_ = step;
  within_step_ = 0;
  samples_ = samples;
  if (loss) loss_ = loss;
  updated_seconds_ = options_.clock_seconds();
  show(updated_seconds_, total_steps_ > 0 && step >= total_steps_);
}

void Progress::move_within_step(double share) {
  if (is_finished_ || options_.stream == nullptr) return;
  const double now = options_.clock_seconds();
  if (now - updated_seconds_ < kPatienceSeconds) return;
  within_step_ = share;
  show(now, false);
}

void Progress::show(double now, bool is_last) {
  if (options_.stream == nullptr || now - start_seconds_ < options_.delay_seconds) return;
  if (options_.terminal && (is_last || now - shown_seconds_ >= options_.refresh_seconds)) draw(now);
  if (!options_.terminal && now - shown_seconds_ >= options_.line_seconds) print_line(now);
}

void Progress::log_line(const std::string& line) {
  if (!shows_bar()) {
    shown_seconds_ = options_.clock_seconds();
    if (options_.on_log_line) options_.on_log_line(line);
    return;
  }
  erase();
  *options_.stream << line << '\n';
  if (is_finished_) {
    options_.stream->flush();
  } else {
    draw(options_.clock_seconds());
  }
}

void Progress::finish() {
  if (options_.vanishes) {
    abandon();
    return;
  }
  if (is_finished_) return;
  is_finished_ = true;
  if (!shows_bar()) return;
  draw(options_.clock_seconds());
  *options_.stream << '\n' << std::flush;
  is_drawn_ = false;
}

void Progress::abandon() {
  if (is_finished_) return;
  is_finished_ = true;
  if (!shows_bar()) return;
  erase();
  *options_.stream << std::flush;
}

void Progress::draw(double now) {
  is_drawn_ |= options_.vanishes;  // another bar may be there
  erase();
  *options_.stream << bar_line_at(now) << std::flush;
  shown_seconds_ = now;
  is_drawn_ = true;
}

void Progress::print_line(double now) {
  *options_.stream << head() << tail_at(now) << '\n' << std::flush;
  shown_seconds_ = now;
}

void Progress::erase() {
  if (is_drawn_) *options_.stream << "\r\x1b[K";
  is_drawn_ = false;
}

double Progress::work_done() const {
  const double done = options_.work_of(step_);
  return within_step_ > 0 ? done + within_step_ * (options_.work_of(step_ + 1) - done) : done;
}

double Progress::share_done() const {
  return std::clamp(work_done() / options_.work_of(total_steps_), 0.0, 1.0);
}

std::string Progress::head() const {
  if (total_steps_ <= 0) return label_;
  return fmt::format("{} {:3.0f}%", label_, std::floor(share_done() * 100));
}

std::string Progress::tail_at(double now) const {
  const double elapsed = now - start_seconds_;
  const double rate = elapsed > 0 ? static_cast<double>(samples_) / elapsed : 0;
  std::string tail;
  switch (options_.unit) {
    case ProgressUnit::kSamples:
      tail = fmt::format(" {}/{}", step_, total_steps_);
      if (within_step_ > 0)
        tail += fmt::format("  step {} {:.0f}%", step_ + 1, std::floor(100 * within_step_));
      if (rate > 0) tail += fmt::format("  {:.1f} samples/s", rate);
      break;
    case ProgressUnit::kTexts:
      tail = total_steps_ > 0 ? fmt::format(" {}/{}", step_, total_steps_) : fmt::format(" {} texts", step_);
      if (rate > 0) tail += fmt::format("  {:.0f} texts/s", rate);
      break;
    case ProgressUnit::kBytes:
      tail = fmt::format(" {} of {}", format_bytes(step_), format_bytes(total_steps_));
      if (rate > 0) tail += fmt::format("  {}/s", format_bytes(static_cast<int64_t>(rate)));
  }
  if (loss_) tail += fmt::format("  loss {:.4f}", *loss_);
  if (elapsed <= 0 || total_steps_ <= 0) return tail;
  if (step_ >= total_steps_) {
    tail += "  " + format_seconds(elapsed);
  } else if (step_ > first_step_ || within_step_ > 0) {
    const double done = work_done();
    const double left =
        elapsed * (options_.work_of(total_steps_) - done) / (done - options_.work_of(first_step_));
    tail += "  " + format_seconds(left) + " left";
  }
  return tail;
}

std::string Progress::bar_line_at(double now) const {
  const std::string before = head() + " ";
  const std::string behind = tail_at(now);
  // The last column stays free: a terminal would wrap there.
  const int64_t width = std::max<int64_t>(1, options_.columns() - 1);
  const int64_t room = width - static_cast<int64_t>(before.size() + behind.size());
  if (room < kShortestBar || total_steps_ <= 0)
    return (before + behind.substr(1)).substr(0, static_cast<size_t>(width));
  const int64_t cells = std::min(room, kLongestBar);
  return before + draw_bar(static_cast<int64_t>(share_done() * static_cast<double>(cells)), cells, options_) +
         behind;
}

}  // namespace shoehorn
