// Machines that one can plan for by name: peaks, bandwidth, memory and links from vendors' data sheets, in devices/*.json.
//
//   {"format": 1, "name": "a100-80gb", "title": "NVIDIA A100 SXM 80 GB", "kind": "gpu" or "cpu", "aliases": ["a100"],
//    "sources": ["NVIDIA A100 Tensor Core GPU, data sheet"], "note": "…",
//    "figures": {"memory": {"value": 80000000000, "unit": "bytes", "source": 0}, …}}
//
// Each figure names its source. Figures: memory (bytes, of 10^9 a GB; a CPU's has none), bandwidth (bytes/s); peaks (flop/s)
// float32, tfloat32, bfloat16, float16, float8, dense; link and host_link (bytes/s, both directions together: a rank
// sends at half of the link); of a CPU cores and base_clock (Hz). Times that follow from them are of no use before somebody measured there: they are labelled so.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "plan/machine_profile.h"

namespace shoehorn {

struct Device {
  std::string name = {};
  std::string title = {};
  bool is_gpu = false;
  std::vector<std::string> aliases = {};
  std::map<std::string, double> figures = {};

  // 0: the device has no such figure.
  double figure(const std::string& name) const;
  // The peak of products with such operands. A type that the device does not multiply is multiplied as fp32.
  double peak_flops(DType operands) const;
  // By name, title or alias, in any case and with any separators, also without the maker: "A100 80GB" is a100-80gb.
  bool answers_to(const std::string& asked) const;
};

// UserError "[`source`: …] expected …, got …" for another form: a missing or unknown key, a figure without a source, a
// value that is not above 0, another unit than the figure's.
Device device_from_json(const nlohmann::json& json, const std::string& source);

// Of all *.json in the directory, by name. UserError as above, and where two answer to one name.
std::vector<Device> load_devices(const std::filesystem::path& directory);

// The device that answers to `name`, or the only one that has all parts of it: "9654" is epyc-9654. UserError naming `what`
// and the known names if there is none, and the nearest; if there are several, which.
const Device& find_device(const std::vector<Device>& devices, const std::string& name,
                          const std::string& what);

// What plans for it are made with: one thread's workspaces. A CPU has as much memory as is asked for.
OtherMachine machine_of(const Device& device);

}  // namespace shoehorn
