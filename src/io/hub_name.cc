#include "io/hub_name.h"

#include <fmt/format.h>

#include <algorithm>

namespace shoehorn {

namespace {

// Not "/a/b", "./a", "a/b/c".
bool may_be_hub_name(const std::string& name) {
  if (name.empty() || name.front() == '/' || name.front() == '.' || name.back() == '/') return false;
  return std::count(name.begin(), name.end(), '/') <= 1 &&
         name.find_first_of(" \\~$'\"") == std::string::npos;
}

}  // namespace

std::string download_hint(const std::string& name) {
  if (!may_be_hub_name(name)) return "";
  return fmt::format(
      "; names on the Hugging Face hub are not downloaded: fetch it first, with 'hf download {0} --local-dir {1}' (of "
      "pip install huggingface_hub) or, with git lfs, 'git clone https://huggingface.co/{0} {1}', and give {1}",
      name, name.substr(name.find('/') + 1));
}

}  // namespace shoehorn
