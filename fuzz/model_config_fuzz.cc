// config.json of a model (models/registry.h): the config that is written of it describes the same model.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "fuzz/reader.h"
#include "io/json_file.h"
#include "model/task.h"
#include "models/registry.h"

namespace shoehorn::fuzz {
namespace {

std::unique_ptr<Model> model_of(std::string_view text, const std::string& file) {
  return model_from_json(parse_json(text, file), file);
}

void fuzz_model_config(std::string_view input) {
  const std::unique_ptr<Model> model = model_of(input, "config.json");
  const std::string written = model->config_json();
  const std::unique_ptr<Model> again = model_of(written, "written.json");
  CHECK(again->config_json() == written, "another config");
  CHECK(again->labels() == model->labels() && again->num_labels() == std::ssize(model->labels()),
        "other labels");
  const ProblemType problem = model->task().label_map().problem;
  CHECK(again->task().label_map().problem == problem, "another problem");
  model->set_labels({.problem = problem, .names = {"no", "yes"}});
  CHECK(
      model_of(model->config_json(), "relabelled.json")->labels() == std::vector<std::string>({"no", "yes"}),
      "labels do not read back");
}

const Registration kModelConfigReader("model_config", fuzz_model_config);

}  // namespace
}  // namespace shoehorn::fuzz
