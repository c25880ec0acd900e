#include "tokenize/tokenizer_side_files.h"

#include "io/file.h"
#include "io/json_file.h"

namespace shoehorn {

JsonNode TokenizerSideFiles::node(const std::string& name) const {
  auto place = files_.find(name);
  if (place == files_.end()) {
    File file{.path = directory_ / name};
    if (path_exists(file.path)) file.content = read_json(file.path);
    place = files_.emplace(name, std::move(file)).first;
  }
  const File& file = place->second;
  const JsonNode node(file.content, file.path, "the file");
  if (!file.content.is_object()) node.fail("an object");
  return node;
}

}  // namespace shoehorn
