// Lines of a run for people, on a terminal that may close before the run ends or through a pipe whose reader may go
// (`| head`): what cannot be shown any more must not keep a stopped run from saving.
#pragma once

#include <cstdio>
#include <string>

namespace shoehorn {

// Writes a text and flushes it. SystemError if that fails, except where nobody is left to read: then nothing is shown.
void print_flushed(std::FILE* file, const std::string& text);

// From now on each line that print_flushed writes begins with `prefix`: of ranks that share an output.
void begin_lines_with(std::string prefix);

// Leads standard output and standard error into nothing where nobody is left to read them. Call it before printing in
// a process that a signal stopped.
void leave_closed_output();

}  // namespace shoehorn
