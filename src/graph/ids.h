// Typed ids: indices into the tables of a program, a state table or a family. Names are for people; nothing
// parses them.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace shoehorn {

template <typename Tag>
struct Id {
  int32_t index = -1;

  bool valid() const { return index >= 0; }
  size_t at() const { return static_cast<size_t>(index); }
  auto operator<=>(const Id&) const = default;  // NOLINT(modernize-use-nullptr): sees a pointer in <=>
};

using ValueId = Id<struct ValueTag>;      // a value of one program
using NodeId = Id<struct NodeTag>;        // a node of one program
using CountId = Id<struct CountTag>;      // a run-time count of one program
using StorageId = Id<struct StorageTag>;  // a persistent storage; all programs of a family share them
using ParameterId = Id<struct ParameterTag>;
using ProgramId = Id<struct ProgramTag>;  // a program of one family

}  // namespace shoehorn

template <typename Tag>
struct std::hash<shoehorn::Id<Tag>> {
  size_t operator()(shoehorn::Id<Tag> id) const noexcept { return std::hash<int32_t>()(id.index); }
};
