#include "analysis/op_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <tuple>

#include "base/error.h"

namespace shoehorn {

namespace {

// Sizes that differ by a factor of 2^kLength share a third of what they have of their own.
constexpr double kLength = 4;
// Standard deviations of logarithms: of a measurement; the least between shapes of a kind; where only other kinds of
// the op, or other ops of the class, were timed; and where nothing was.
constexpr double kNoise = 0.02;
constexpr double kLeastSpread = 0.08;
constexpr double kOtherKind = 0.25;
constexpr double kOtherOp = 0.5;
// What starting a node takes, however small it is.
constexpr double kStartSeconds = 1e-6;

double log_size(double size) {
  return std::log2(std::max(1.0, size));
}

std::string types_of(const OpContext& context) {
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(2, context.node.inputs.size()); ++i) {
    if (context.has(static_cast<int64_t>(i)))
      text += fmt::format("{}{}", i == 0 ? "" : ",", dtype_name(context.type(static_cast<int64_t>(i)).dtype));
  }
  if (!context.node.outputs.empty()) text += fmt::format(">{}", dtype_name(context.output_type(0).dtype));
  return text;
}

// What else picks the kernel.
std::string variant_of(const OpContext& context) {
  const Attributes& attributes = context.node.attributes;
  std::string text;
  if (const auto* product = std::get_if<MatmulAttributes>(&attributes)) {
    text += product->transpose_a ? " t" : " n";
    text += product->transpose_b ? " t" : " n";
    for (int64_t i = 2; i < static_cast<int64_t>(context.node.inputs.size()); ++i)
      if (context.has(i)) text += fmt::format(" +{}", i);
  } else if (const auto* activation = std::get_if<ActivationAttributes>(&attributes)) {
    text += fmt::format(" {}", activation_name(activation->kind));
  } else if (const auto* normalization = std::get_if<NormalizationAttributes>(&attributes)) {
    if (normalization->dropout.p > 0) text += " dropout";
  } else if (const auto* attention = std::get_if<AttentionAttributes>(&attributes)) {
    if (attention->dropout.p > 0) text += " dropout";
    if (attention->mask != AttentionMask{}) text += " masked";
  } else if (const auto* update = std::get_if<UpdateAttributes>(&attributes)) {
    text += fmt::format(" form {}", static_cast<int>(update->form));
  } else if (const auto* loss = std::get_if<LinearLossGradAttributes>(&attributes)) {
    text += fmt::format(" {}{}", loss->trains_input ? "x" : "", loss->trains_weight ? "w" : "");
  }
  return text;
}

std::vector<double> sizes_of(const OpContext& context, const Cost& cost, OpClass op_class) {
  const double bytes = cost.bytes_read + cost.bytes_written;
  if (context.node.kind == OpKind::kMatmul) {
    const Shape& output = context.output_type(0).shape;
    const double elements = static_cast<double>(output.elements());
    const double columns = static_cast<double>(output.back().maximum);
    return {log_size(elements / std::max(1.0, columns)), log_size(columns),
            log_size(cost.flops / std::max(1.0, 2 * elements))};
  }
  if (op_class == OpClass::kContraction)
    return {log_size(bytes), log_size(cost.flops / std::max(1.0, bytes))};
  return {log_size(bytes)};
}

double squared_distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

double covariance(double variance, const std::vector<double>& a, const std::vector<double>& b) {
  return variance * std::exp(-std::sqrt(squared_distance(a, b)) / kLength);
}

std::optional<DType> dtype_named(const std::string& name) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    if (dtype_name(dtype) == name) return dtype;
  }
  return std::nullopt;
}

// Solves L y = b for the lower triangle L, in place.
void solve_lower(const std::vector<double>& lower, std::vector<double>& b) {
  for (size_t i = 0; i < b.size(); ++i) {
    for (size_t j = 0; j < i; ++j) b[i] -= lower[(i * (i + 1) / 2) + j] * b[j];
    b[i] /= lower[(i * (i + 1) / 2) + i];
  }
}

// Solves Lᵀ x = y, in place.
void solve_upper(const std::vector<double>& lower, std::vector<double>& y) {
  for (size_t i = y.size(); i-- > 0;) {
    for (size_t j = i + 1; j < y.size(); ++j) y[i] -= lower[(j * (j + 1) / 2) + i] * y[j];
    y[i] /= lower[(i * (i + 1) / 2) + i];
  }
}

}  // namespace

bool OpWork::operator<(const OpWork& other) const {
  return std::tie(kind, flops, bytes, sizes) < std::tie(other.kind, other.flops, other.bytes, other.sizes);
}

OpWork op_work(const OpContext& context, const Cost& cost) {
  const OpInfo& info = op_info(context.node.kind);
  OpWork work;
  work.op = info.name;
  work.kind = fmt::format("{} {}{}", info.name, types_of(context), variant_of(context));
  work.op_class = info.op_class;
  if (info.op_class == OpClass::kContraction) work.operands = context.type(0).dtype;
  work.flops = cost.flops;
  work.bytes = cost.bytes_read + cost.bytes_written;
  work.sizes = sizes_of(context, cost, info.op_class);
  return work;
}

OpCosts::OpCosts(const MachineLimits& limits, std::vector<OpSample> samples) : limits_(limits) {
  CHECK(limits.fp32_flops > 0 && limits.bytes_per_second > 0, "rates of a machine that are not above 0");
  std::map<OpWork, std::vector<double>> times;
  for (OpSample& sample : samples) {
    CHECK(sample.seconds > 0, "a time of {} s", sample.seconds);
    times[std::move(sample.work)].push_back(sample.seconds);
  }
  for (const auto& [work, seconds] : times) {
    samples_.push_back(
        {work, std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size())});
  }
  std::map<std::string, std::vector<const OpSample*>> by_kind;
  std::map<std::string, std::vector<const OpSample*>> by_op;
  std::map<OpClass, std::vector<const OpSample*>> by_class;
  for (const OpSample& sample : samples_) {
    by_kind[sample.work.kind].push_back(&sample);
    by_op[sample.work.op].push_back(&sample);
    by_class[sample.work.op_class].push_back(&sample);
  }
  for (auto& [kind, of_kind] : by_kind) kinds_.emplace(kind, shapes_of(std::move(of_kind)));
  for (auto& [op, of_op] : by_op) ops_.emplace(op, shapes_of(std::move(of_op)));
  for (auto& [op_class, of_class] : by_class) classes_.emplace(op_class, shapes_of(std::move(of_class)));
}

double OpCosts::work_seconds(const OpWork& work) const {
  return kStartSeconds + (work.flops / limits_.product_flops(work.operands)) +
         (work.bytes / limits_.bytes_per_second);
}

OpCosts::Shapes OpCosts::shapes_of(std::vector<const OpSample*> samples) const {
  Shapes shapes;
  shapes.samples = std::move(samples);
  const size_t count = shapes.samples.size();
  std::vector<double> factors;
  for (const OpSample* sample : shapes.samples)
    factors.push_back(std::log(sample->seconds / work_seconds(sample->work)));
  shapes.mean = std::accumulate(factors.begin(), factors.end(), 0.0) / static_cast<double>(count);
  for (const double factor : factors)
    shapes.variance += (factor - shapes.mean) * (factor - shapes.mean) / static_cast<double>(count);
  shapes.variance = std::max(shapes.variance, kLeastSpread * kLeastSpread);
  shapes.factor.resize(count * (count + 1) / 2);
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double value =
          covariance(shapes.variance, shapes.samples[i]->work.sizes, shapes.samples[j]->work.sizes);
      if (i == j) value += kNoise * kNoise;
      for (size_t k = 0; k < j; ++k)
        value -= shapes.factor[(i * (i + 1) / 2) + k] * shapes.factor[(j * (j + 1) / 2) + k];
      const double below = shapes.factor[(j * (j + 1) / 2) + j];
      shapes.factor[(i * (i + 1) / 2) + j] = i == j ? std::sqrt(value) : value / below;
    }
    shapes.residuals.push_back(factors[i] - shapes.mean);
  }
  solve_lower(shapes.factor, shapes.residuals);
  solve_upper(shapes.factor, shapes.residuals);
  return shapes;
}

OpEstimate OpCosts::estimate(const OpWork& work) const {
  const double clock = work.op_class == OpClass::kContraction ? clock_.products : clock_.memory;
  const double base = work_seconds(work) * clock;
  const auto kind = kinds_.find(work.kind);
  const Shapes* shapes = nullptr;
  double spread = 0;
  if (kind != kinds_.end()) {
    shapes = &kind->second;
  } else if (const auto op = ops_.find(work.op); op != ops_.end()) {
    shapes = &op->second;
    spread = kOtherKind;
  } else if (const auto of_class = classes_.find(work.op_class); of_class != classes_.end()) {
    return {base * std::exp(of_class->second.mean), kOtherOp, false};
  } else {
    return {base, kOtherOp, false};
  }
  double factor = shapes->mean;
  std::vector<double> near;
  for (size_t i = 0; i < shapes->samples.size(); ++i) {
    near.push_back(covariance(shapes->variance, work.sizes, shapes->samples[i]->work.sizes));
    factor += near[i] * shapes->residuals[i];
  }
  solve_lower(shapes->factor, near);
  double variance = shapes->variance + (kNoise * kNoise) + (spread * spread);
  for (const double part : near) variance -= part * part;
  return {base * std::exp(factor), std::sqrt(std::max(0.0, variance)), kind != kinds_.end()};
}

nlohmann::json to_json(std::span<const OpSample> samples) {
  nlohmann::json rows = nlohmann::json::array();
  for (const OpSample& sample : samples) {
    rows.push_back({{"op", sample.work.op},
                    {"kind", sample.work.kind},
                    {"class", static_cast<int>(sample.work.op_class)},
                    {"operands", dtype_name(sample.work.operands)},
                    {"flops", sample.work.flops},
                    {"bytes", sample.work.bytes},
                    {"sizes", sample.work.sizes},
                    {"seconds", sample.seconds}});
  }
  return rows;
}

std::vector<OpSample> op_samples_from_json(const nlohmann::json& json, const std::string& source) {
  const auto wrong = [&](size_t row) {
    return user_error(
        "[{}] expected a list of timed operations, as `shoehorn calibrate` writes it, got another row {}",
        source, row);
  };
  if (!json.is_array()) throw wrong(0);
  std::vector<OpSample> samples;
  for (const nlohmann::json& row : json) {
    OpSample sample;
    try {
      row.at("op").get_to(sample.work.op);
      row.at("kind").get_to(sample.work.kind);
      const int op_class = row.at("class").get<int>();
      const std::optional<DType> operands = dtype_named(row.at("operands").get<std::string>());
      row.at("flops").get_to(sample.work.flops);
      row.at("bytes").get_to(sample.work.bytes);
      row.at("sizes").get_to(sample.work.sizes);
      row.at("seconds").get_to(sample.seconds);
      const bool is_known =
          op_class >= 0 && op_class <= static_cast<int>(OpClass::kUpdate) && operands.has_value();
      if (!is_known || !(sample.seconds > 0) || !std::isfinite(sample.seconds)) throw wrong(samples.size());
      sample.work.op_class = static_cast<OpClass>(op_class);
      sample.work.operands = *operands;
    } catch (const nlohmann::json::exception&) {
      throw wrong(samples.size());
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace shoehorn
