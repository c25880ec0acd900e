#include "passes/family_snapshot.h"

#include <utility>

namespace shoehorn {

namespace {

// Everything but the state table.
void copy_rest(const ProgramFamily& from, ProgramFamily& to) {
  to.scalars = from.scalars;
  to.train_buckets = from.train_buckets;
  to.evaluation_buckets = from.evaluation_buckets;
  to.train_batches = from.train_batches;
  to.evaluation_batch = from.evaluation_batch;
  to.loss = from.loss;
  to.grad_norm = from.grad_norm;
  to.loss_scale = from.loss_scale;
  to.adapters = from.adapters;
  to.shards = from.shards;
  to.programs = from.programs;
  to.gradients = from.gradients;
}

}  // namespace

FamilySnapshot::FamilySnapshot(const ProgramFamily& family) : state_(*family.state) {
  copy_rest(family, rest_);
}

void FamilySnapshot::restore(ProgramFamily& family) const {
  *family.state = state_;
  copy_rest(rest_, family);
}

}  // namespace shoehorn
