#include "graph/state_table.h"

#include <algorithm>

#include "base/error.h"

namespace shoehorn {

int64_t ShardedTensor::global_elements() const {
  int64_t product = 1;
  for (const int64_t dim : shape) product *= dim;
  return product;
}

StorageId StateTable::add_storage(Storage storage) {
  storages_.push_back(std::move(storage));
  return StorageId{static_cast<int32_t>(storages_.size()) - 1};
}

ParameterId StateTable::add_parameter(Parameter parameter) {
  if (find_parameter(parameter.name).valid()) {
    throw user_error("[parameter] expected names used once, got '{}' twice; give each layer its own prefix",
                     parameter.name);
  }
  parameters_.push_back(std::move(parameter));
  return ParameterId{static_cast<int32_t>(parameters_.size()) - 1};
}

std::vector<ParameterId> StateTable::parameters_of(StorageId storage) const {
  std::vector<ParameterId> found;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].storage == storage || parameters_[i].rest == storage) {
      found.push_back(ParameterId{static_cast<int32_t>(i)});
    }
  }
  std::sort(found.begin(), found.end(), [this](ParameterId a, ParameterId b) {
    return parameter(a).offset_elements < parameter(b).offset_elements;
  });
  return found;
}

ParameterId StateTable::find_parameter(std::string_view name) const {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].name == name) return ParameterId{static_cast<int32_t>(i)};
  }
  return {};
}

StorageId StateTable::find_storage(std::string_view name) const {
  for (size_t i = 0; i < storages_.size(); ++i) {
    if (storages_[i].name == name) return StorageId{static_cast<int32_t>(i)};
  }
  return {};
}

void StateTable::verify_parameters() const {
  struct Place {
    StorageId storage;
    int64_t begin;
    int64_t end;
    const Parameter* parameter;
  };
  std::vector<Place> places;
  for (const Parameter& parameter : parameters_) {
    const int64_t begin = parameter.offset_elements;
    const int64_t end = begin + parameter.stored_elements();
    const Slice slice = parameter.slice();
    CHECK(parameter.storage.valid(), "{} lies in no storage", parameter.name);
    CHECK(Slice::make(slice, parameter.global_elements()) &&
              (!parameter.shard || parameter.shard->padding >= 0),
          "{} of {} elements is said to have {} here", parameter.name, parameter.global_elements(),
          slice_text(slice));
    for (const StorageId id : {parameter.storage, parameter.rest}) {
      if (!id.valid()) continue;
      CHECK(begin >= 0 && end <= storage(id).type.shape.elements(),
            "{} lies at elements {} to {} of '{}', which has {}", parameter.name, begin, end,
            storage(id).name, storage(id).type.shape.elements());
    }
    if (begin < end) places.push_back({parameter.storage, begin, end, &parameter});
  }
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return std::pair(a.storage.index, a.begin) < std::pair(b.storage.index, b.begin);
  });
  for (size_t i = 1; i < places.size(); ++i) {
    const Place& before = places[i - 1];
    CHECK(before.storage != places[i].storage || before.end <= places[i].begin, "{} and {} overlap in '{}'",
          before.parameter->name, places[i].parameter->name, storage(before.storage).name);
  }
}

StorageId StateTable::merge(const std::vector<StorageId>& parts, std::string name) {
  CHECK(!parts.empty(), "nothing to merge into {}", name);
  Storage whole = storage(parts[0]);
  whole.name = std::move(name);
  std::vector<Dim> dims = whole.type.shape.dims();
  dims[0] = Dim(0);
  const StorageId id = add_storage({});
  int64_t offset = 0;
  for (const StorageId part : parts) {
    Storage& source = storage(part);
    CHECK(source.type.dtype == whole.type.dtype && source.role == whole.role, "{} differs in kind",
          source.name);
    dims[0].maximum += source.type.shape[0].maximum;
    for (Parameter& parameter : parameters_) {
      if (parameter.storage == part) {
        parameter.storage = id;
        parameter.offset_elements += offset;
      } else if (parameter.rest == part) {
        parameter.rest = id;
      }
    }
    offset += source.type.shape.elements();
    source.type.shape = Shape({0});
    source.merged_into = id;
  }
  whole.type.shape = Shape(dims);
  storage(id) = std::move(whole);
  return id;
}

}  // namespace shoehorn
