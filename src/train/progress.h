// Shows the progress of long work. On a terminal it is one line that is redrawn:
//
//   train  42% ━━━━━━━━━━━━━───────────────── 42/100  31.5 samples/s  loss 0.4213  0:37 left
//
// Elsewhere it is a line every half a minute, unless a log line appeared meanwhile. Writes only to the given stream
// and reads only the given clock. Not thread-safe.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <ostream>
#include <string>

namespace shoehorn {

// What the work is counted in.
enum class ProgressUnit : uint8_t { kSamples, kTexts, kBytes };

struct ProgressOptions {
  std::ostream* stream = nullptr;         // not owned; null: draws nothing
  bool terminal = false;                  // the stream is a terminal: draw the bar
  bool color = false;                     // use colours
  bool unicode = true;                    // false: the bar consists of '#' and '-'
  std::function<int64_t()> columns;       // terminal width, asked at each redraw; unset: 80
  std::function<double()> clock_seconds;  // unset: the steady clock
  // The work of the first `step` steps in any unit, for the percentage and the time left; unset: all steps
  // are equal.
  std::function<double(int64_t step)> work_of;
  ProgressUnit unit = ProgressUnit::kSamples;
  double delay_seconds = 0;      // nothing is shown of work that takes less
  double refresh_seconds = 0.1;  // minimum time between redraws on a terminal
  double line_seconds = 30;      // minimum time between lines elsewhere
  bool vanishes = false;         // finish() erases the bar; it may be drawn over another one meanwhile
  std::function<void(const std::string&)> on_log_line;  // gets every log line if there is no terminal
};

// The same for work beside the main one, which often takes no time: its bar appears after two seconds and vanishes.
ProgressOptions beside_main_work(ProgressOptions options, ProgressUnit unit = ProgressUnit::kSamples);

// Options for a bar on `file` (stderr), written through `stream`. Finds out whether it is a terminal and how
// wide (COLUMNS comes first); reads NO_COLOR and TERM=dumb (see no-color.org), and UTF-8 from LC_ALL,
// LC_CTYPE or LANG.
ProgressOptions detect_terminal(std::FILE* file, std::ostream& stream);

class Progress {
 public:
  // Starts at `first_step` of `total_steps` (for a resumed run); rates count only what this run does. Of bytes and
  // texts the steps are the samples. A total of 0 is unknown: only the count and the rate are shown.
  Progress(std::string label, int64_t first_step, int64_t total_steps, ProgressOptions options);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  // calls finish()

  // `step` steps of the total are done; this run has done `samples` samples.
  void update(int64_t step, int64_t samples, std::optional<double> loss = std::nullopt);

  // Share `share` (0 to 1) of the step behind the last finished one is done. Shown once that step has taken two seconds.
  void move_within_step(double share);

  // Prints a line above the bar; without a terminal it goes to on_log_line.
  void log_line(const std::string& line);

  // Draws the last state and a newline, or erases a bar that vanishes. Further calls do nothing.
  void finish();
  // Erases the bar instead, for a run that is not finished.
  void abandon();

 private:
  bool shows_bar() const { return options_.stream != nullptr && options_.terminal; }
  void draw(double now);
  void print_line(double now);
  void erase();
  std::string head() const;
  std::string tail_at(double now) const;
  std::string bar_line_at(double now) const;
  void show(double now, bool is_last);
  double work_done() const;
  double share_done() const;

  std::string label_;
  int64_t first_step_;
  int64_t total_steps_;
  ProgressOptions options_;
  int64_t step_;
  double within_step_ = 0;  // what is shown of the step behind it
  int64_t samples_ = 0;
  std::optional<double> loss_;
  double start_seconds_;
  double shown_seconds_;    // when the bar was drawn or a line was printed
  double updated_seconds_;  // when the last step was finished
  bool is_drawn_ = false;
  bool is_finished_ = false;
};

}  // namespace shoehorn
