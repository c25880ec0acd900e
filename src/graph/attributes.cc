#include "graph/attributes.h"

namespace shoehorn {

Attributes::Attributes() = default;
Attributes::Attributes(const Attributes& other) = default;
Attributes::Attributes(Attributes&& other) noexcept = default;
Attributes& Attributes::operator=(const Attributes& other) = default;
Attributes& Attributes::operator=(Attributes&& other) noexcept = default;
Attributes::~Attributes() = default;

std::string_view activation_name(Activation activation) {
  switch (activation) {
    case Activation::kGelu:
      return "gelu";
    case Activation::kGeluTanh:
      return "gelu_new";
    case Activation::kRelu:
      return "relu";
    case Activation::kSilu:
      return "silu";
    case Activation::kTanh:
      return "tanh";
  }
  return "unknown";
}

void shift_counts(Attributes& attributes, int32_t by) {
  const auto shift = [by](Dim& dim) {
    if (dim.count.valid()) dim.count.index += by;
  };
  if (auto* scatter = std::get_if<ScatterAttributes>(&attributes)) shift(scatter->rows);
  if (auto* view = std::get_if<ViewAttributes>(&attributes)) {
    std::vector<Dim> dims = view->type.shape.dims();
    for (Dim& dim : dims) shift(dim);
    view->type.shape = Shape(std::move(dims));
  }
}

}  // namespace shoehorn
