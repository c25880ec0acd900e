#include "report/event_file.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <ctime>

#include "base/error.h"

namespace shoehorn {

namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;
constexpr uint32_t kMaskDelta = 0xA282EAD8;

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
    table[byte] = value;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = make_table();

template <typename T>
std::string little_endian(T value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>((value >> (8 * i)) & 0xFF);
  return bytes;
}

// Protocol buffers' wire format: https://protobuf.dev/programming-guides/encoding.
enum class Wire : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7F) | 0x80);
  return bytes + static_cast<char>(value);
}

std::string key(uint64_t field, Wire wire) {
  return varint(field << 3 | static_cast<uint64_t>(wire));
}

std::string field_varint(uint64_t field, int64_t value) {
  return key(field, Wire::kVarint) + varint(static_cast<uint64_t>(value));
}

std::string field_double(uint64_t field, double value) {
  return key(field, Wire::kFixed64) + little_endian(std::bit_cast<uint64_t>(value));
}

std::string field_float(uint64_t field, float value) {
  return key(field, Wire::kFixed32) + little_endian(std::bit_cast<uint32_t>(value));
}

std::string field_bytes(uint64_t field, std::string_view value) {
  return key(field, Wire::kBytes) + varint(value.size()) + std::string(value);
}

// Field numbers of the messages.
namespace event {
constexpr uint64_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5;
}
namespace summary {
constexpr uint64_t kValue = 1;
}
namespace summary_value {
constexpr uint64_t kTag = 1, kSimpleValue = 2, kTensor = 8, kMetadata = 9;
}
namespace tensor {
constexpr uint64_t kDtype = 1, kShape = 2, kStringValue = 8;
constexpr int64_t kString = 7;
}  // namespace tensor

std::string event_with(double wall_seconds, int64_t step, std::string_view summary_value) {
  return field_double(event::kWallTime, wall_seconds) + field_varint(event::kStep, step) +
         field_bytes(event::kSummary, field_bytes(summary::kValue, summary_value));
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

std::filesystem::path new_file_in(const std::filesystem::path& directory) {
  static std::atomic<int64_t> number{0};
  ensure_writable_directory(directory);
  return directory / fmt::format("events.out.tfevents.{:010}.{}.{}.{}", static_cast<int64_t>(wall_seconds()),
                                 host_name(), getpid(), number++);
}

}  // namespace

uint32_t crc32c(std::string_view data) {
  uint32_t crc = 0xFFFFFFFF;
  for (const char byte : data) crc = kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF] ^ (crc >> 8);
  return ~crc;
}

uint32_t masked_crc32c(std::string_view data) {
  return std::rotr(crc32c(data), 15) + kMaskDelta;
}

std::string tfrecord(std::string_view data) {
  const std::string length = little_endian(static_cast<uint64_t>(data.size()));
  return length + little_endian(masked_crc32c(length)) + std::string(data) +
         little_endian(masked_crc32c(data));
}

std::string scalar_event(double wall_seconds, int64_t step, std::string_view tag, float value) {
  return event_with(wall_seconds, step,
                    field_bytes(summary_value::kTag, tag) + field_float(summary_value::kSimpleValue, value));
}

std::string text_event(double wall_seconds, int64_t step, std::string_view tag, std::string_view text) {
  const std::string plugin = field_bytes(1, "text");             // PluginData.plugin_name
  const std::string metadata = field_bytes(1, plugin);           // SummaryMetadata.plugin_data
  const std::string shape = field_bytes(2, field_varint(1, 1));  // TensorShapeProto.dim.size
  return event_with(wall_seconds, step,
                    field_bytes(summary_value::kTag, fmt::format("{}/text_summary", tag)) +
                        field_bytes(summary_value::kTensor, field_varint(tensor::kDtype, tensor::kString) +
                                                                field_bytes(tensor::kShape, shape) +
                                                                field_bytes(tensor::kStringValue, text)) +
                        field_bytes(summary_value::kMetadata, metadata));
}

EventFile::EventFile(const std::filesystem::path& directory) : file_(new_file_in(directory)) {
  file_.write(tfrecord(field_double(event::kWallTime, wall_seconds()) +
                       field_bytes(event::kFileVersion, "brain.Event:2")));
}

void EventFile::add_scalar(std::string_view tag, double value, int64_t step) {
  file_.write(tfrecord(scalar_event(wall_seconds(), step, tag, static_cast<float>(value))));
}

void EventFile::add_text(std::string_view tag, std::string_view text, int64_t step) {
  file_.write(tfrecord(text_event(wall_seconds(), step, tag, text)));
}

std::string default_run_directory_name() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%b%d_%H-%M-%S", &local);
  return fmt::format("{}_{}", text.data(), host_name());
}

}  // namespace shoehorn
