// The command that goes on with a stopped run, to be copied into a shell.
#pragma once

#include <string>
#include <vector>

namespace shoehorn {

// `program` with the words of its command line, so that it resumes from the newest checkpoint: flags about another
// beginning (--resume_from_checkpoint DIR, --overwrite_output_dir) are left out.
std::string resume_command(const std::string& program, const std::vector<std::string>& words);

}  // namespace shoehorn
