#include "session/program_hash.h"

#include <fmt/format.h>

#include <span>

#include "base/content_hash.h"
#include "ops/dump.h"

namespace shoehorn {

std::string program_hash(const Session& session) {
  std::string text;
  for (const Program& program : session.family().programs)
    text += fmt::format("{}\ncalls {}\n", dump(program), session.calls_in_step(program));
  for (const Storage& storage : session.state().storages())
    text += fmt::format("{} {}\n", storage.name, type_name(storage.type));
  ContentHash hash;
  hash.add(std::as_bytes(std::span(text)));
  return hash.hex();
}

}  // namespace shoehorn
