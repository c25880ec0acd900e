// Whether two settings are one program under two names.
#pragma once

#include <string>

#include "session/session.h"

namespace shoehorn {

// In hexadecimal. Equal for two sessions that run the same nodes as often on the same states.
std::string program_hash(const Session& session);

}  // namespace shoehorn
