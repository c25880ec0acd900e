// Progress of a run for a person who watches: on a terminal one line that is redrawn,
//
//   train  42% ━━━━━━━━━━━━━───────────────── 42/100  31.5 samples/s  loss 0.4213  0:37 left
//
// elsewhere nothing but the log lines, which the caller prints or not. Writes only to the given stream; time
// comes from the given clock. For one thread at a time.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <ostream>
#include <string>

namespace shoehorn {

struct ProgressOptions {
  std::ostream* stream = nullptr;         // borrowed; null: draws nothing
  bool terminal = false;                  // the stream is one: the bar is drawn
  bool color = false;                     // with colours
  bool unicode = true;                    // else the bar is of '#' and '-'
  std::function<int64_t()> columns;       // width of the terminal, asked at each redraw; unset: 80
  std::function<double()> clock_seconds;  // unset: the steady clock
  // Work that the first `step` steps are, in any unit, for the share and the time left; unset: all are alike.
  std::function<double(int64_t step)> work_of;
  double refresh_seconds = 0.1;                         // least time between redraws
  std::function<void(const std::string&)> on_log_line;  // gets every log line where the stream is no terminal
};

// Options for a bar on `file` (stderr) written through `stream`: whether it is a terminal and how wide
// (COLUMNS counts first), NO_COLOR and TERM=dumb (see no-color.org), UTF-8 in LC_ALL, LC_CTYPE or LANG.
ProgressOptions detect_terminal(std::FILE* file, std::ostream& stream);

class Progress {
 public:
  // Counting goes on from `first_step` of `total_steps` (a resumed run); rates count what this run does.
  Progress(std::string label, int64_t first_step, int64_t total_steps, ProgressOptions options);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  // as finish()

  // `step` steps of the total are done, and `samples` samples in this run.
  void update(int64_t step, int64_t samples, std::optional<double> loss = std::nullopt);

  // A line above the bar on a terminal; elsewhere it goes to on_log_line.
  void log_line(const std::string& line);

  // Draws the last state and leaves it, with a newline. Further calls do nothing.
  void finish();

 private:
  void draw(double now);
  void erase();
  std::string line_at(double now) const;

  std::string label_;
  int64_t first_step_;
  int64_t total_steps_;
  ProgressOptions options_;
  int64_t step_;
  int64_t samples_ = 0;
  std::optional<double> loss_;
  double start_seconds_;
  double drawn_seconds_;
  bool is_drawn_ = false;
  bool is_finished_ = false;
};

}  // namespace shoehorn
