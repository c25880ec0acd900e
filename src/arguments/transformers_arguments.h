// Configuration files that transformers wrote (TrainingArguments.to_json_string()): every field, with its default.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace shoehorn {

// True for an object with the fields that only such a file has.
bool is_transformers_arguments(const nlohmann::json& object);

// The object without fields that ask for nothing on one device, and without those whose default has no meaning here:
// do_train, do_eval and do_predict if false (only scripts read them), logging_nan_inf_filter if true (a NaN is always
// shown), enable_jit_checkpoint if false, masked tokens, and fields of other versions of transformers that are off. What
// it asks for besides stays, to be honoured or refused by name.
nlohmann::json without_transformers_defaults(nlohmann::json object);

}  // namespace shoehorn
