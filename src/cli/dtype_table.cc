#include "cli/dtype_table.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/float_format.h"
#include "session/precision_report.h"

namespace shoehorn {

namespace {

std::string use_of(const FloatFormat& format) {
  if (format.name == "float64") return "norms and sums of many terms";
  if (format.name == "float32") return "products native; masters, optimizer, norms, softmax, loss";
  if (format.name == "bfloat16") return "--bf16; products " + half_products_text(false);
  if (format.name == "float16") return "--fp16; products " + half_products_text(true);
  return "none: it needs a GPU that has it";
}

// JSON has no infinity.
nlohmann::json number(double value) {
  if (std::isfinite(value)) return value;
  return fmt::format("{}", value);
}

}  // namespace

std::string format_dtype_table() {
  std::string text = fmt::format("{:<14}{:>5}{:>9}{:>9}{:>12}{:>12}{:>12}{:>12}{:>11}{:>20}{:>9}  {}\n",
                                 "type", "bits", "exponent", "mantissa", "max", "min normal", "subnormal",
                                 "epsilon", "resolution", "1/3", "1e6", "on this machine");
  for (const FloatFormat& format : float_formats()) {
    text += fmt::format(
        "{:<14}{:>5}{:>9}{:>9}{:>12.5g}{:>12.5g}{:>12.5g}{:>12.5g}{:>11.0e}{:>20.16g}{:>9g}  {}\n",
        format.name, format.bits, format.exponent_bits, format.mantissa_bits, format.max(),
        format.min_normal(), format.min_subnormal(), format.epsilon(), format.resolution(),
        round_to_format(1.0 / 3, format), round_to_format(1e6, format), use_of(format));
  }
  return text;
}

std::string dtype_table_json() {
  nlohmann::json rows = nlohmann::json::array();
  for (const FloatFormat& format : float_formats()) {
    rows.push_back({{"dtype", format.name},
                    {"bits", format.bits},
                    {"exponent_bits", format.exponent_bits},
                    {"mantissa_bits", format.mantissa_bits},
                    {"max", format.max()},
                    {"min_normal", format.min_normal()},
                    {"min_subnormal", format.min_subnormal()},
                    {"epsilon", format.epsilon()},
                    {"resolution", format.resolution()},
                    {"one_third", round_to_format(1.0 / 3, format)},
                    {"one_million", number(round_to_format(1e6, format))},
                    {"use", use_of(format)}});
  }
  return rows.dump(2);
}

}  // namespace shoehorn
