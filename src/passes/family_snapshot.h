// What a family holds between two passes, to go on from there more than once.
#pragma once

#include "passes/program_family.h"

namespace shoehorn {

class FamilySnapshot {
 public:
  explicit FamilySnapshot(const ProgramFamily& family);
  // Makes `family`, the one that the snapshot was taken of, what it was. Its state table stays where it is.
  void restore(ProgramFamily& family) const;

 private:
  StateTable state_;
  ProgramFamily rest_;  // with a state table of its own, which is empty
};

}  // namespace shoehorn
