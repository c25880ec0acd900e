#include "report/trace_file.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace shoehorn {

namespace {

std::string quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string microseconds(double seconds) {
  return fmt::format("{:.3f}", seconds * 1e6);
}

std::string object_of(const TraceArguments& arguments) {
  std::string text;
  for (const auto& [name, value] : arguments) {
    if (!text.empty()) text += ',';
    text += quoted(name) + ':';
    if (const auto* string = std::get_if<std::string_view>(&value)) {
      text += quoted(*string);
    } else if (const auto* integer = std::get_if<int64_t>(&value)) {
      text += fmt::format("{}", *integer);
    } else {
      text += nlohmann::json(std::get<double>(value)).dump();  // null where it is not finite
    }
  }
  return '{' + text + '}';
}

std::string metadata(std::string_view kind, int64_t thread, std::string_view name) {
  return fmt::format(R"({{"ph":"M","name":"{}","pid":1,"tid":{},"args":{{"name":{}}}}})", kind, thread,
                     quoted(name));
}

}  // namespace

TraceFile::TraceFile(const std::filesystem::path& path) : file_(path) {
  file_.write(std::string_view("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"));
}

void TraceFile::add(const std::string& event) {
  file_.write((is_empty_ ? "" : ",\n") + event);
  is_empty_ = false;
}

void TraceFile::name_process(std::string_view name) {
  add(metadata("process_name", 0, name));
}

void TraceFile::name_thread(int64_t thread, std::string_view name) {
  add(metadata("thread_name", thread, name));
}

void TraceFile::add_slice(const TraceSlice& slice) {
  add(fmt::format(R"({{"ph":"X","name":{},"cat":{},"pid":1,"tid":{},"ts":{},"dur":{},"args":{}}})",
                  quoted(slice.name), quoted(slice.category), slice.thread, microseconds(slice.start_seconds),
                  microseconds(slice.seconds), object_of(slice.arguments)));
}

void TraceFile::add_counter(std::string_view name, double at_seconds, const TraceArguments& values) {
  add(fmt::format(R"({{"ph":"C","name":{},"pid":1,"ts":{},"args":{}}})", quoted(name),
                  microseconds(at_seconds), object_of(values)));
}

void TraceFile::commit() {
  file_.write(std::string_view("\n]}\n"));
  file_.commit();
}

}  // namespace shoehorn
