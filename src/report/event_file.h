// TensorBoard's event files: scalars and texts over the steps of a run.
//
// A file is TFRecord frames, each with an Event message:
//   uint64 length | uint32 masked crc32c of the length | data | uint32 masked crc32c of the data
// little-endian, as TensorFlow's record_writer writes them. The few fields of Event, Summary and TensorProto
// that are needed (tensorflow/core/util/event.proto, framework/summary.proto) are encoded here. libprotobuf
// would add its compiler and three schema files to the build to replace some thirty lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "io/append_file.h"

namespace shoehorn {

// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78), and the masked form in TFRecords: rotated and
// offset, so that a checksum of data that contains checksums is no special case.
uint32_t crc32c(std::string_view data);
uint32_t masked_crc32c(std::string_view data);

// Wraps data into one record.
std::string tfrecord(std::string_view data);

// Serialized Event messages.
std::string scalar_event(double wall_seconds, int64_t step, std::string_view tag, float value);
std::string text_event(double wall_seconds, int64_t step, std::string_view tag, std::string_view text);

class EventFile {
 public:
  // Creates a new file in `directory`, and the directory if it does not exist:
  // events.out.tfevents.<seconds>.<host>.<process>.<number>. SystemError if it cannot be written.
  explicit EventFile(const std::filesystem::path& directory);

  const std::filesystem::path& path() const { return file_.path(); }

  // Each is in the file when the call returns. A text's tag is <tag>/text_summary, as with SummaryWriter.
  void add_scalar(std::string_view tag, double value, int64_t step);
  void add_text(std::string_view tag, std::string_view text, int64_t step);

 private:
  AppendFile file_;
};

// "Nov21_15-04-05_host": the directory name that SummaryWriter, and so the Trainer, uses for a run that
// begins now.
std::string default_run_directory_name();

}  // namespace shoehorn
