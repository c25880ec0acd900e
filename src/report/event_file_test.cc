#include "report/event_file.h"

#include <gtest/gtest.h>

#include <bit>

#include "base/error.h"
#include "io/test_directory.h"

namespace shoehorn {
namespace {

// RFC 3720, appendix B.4.
TEST(Crc32cTest, HasThePublishedValues) {
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
}

uint64_t little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

TEST(EventFileTest, ARecordIsLengthDataAndTheirChecksums) {
  const std::string data("\x00\x01payload", 9);
  const std::string record = tfrecord(data);
  ASSERT_EQ(record.size(), 8 + 4 + data.size() + 4);
  EXPECT_EQ(little_endian(record.substr(0, 8)), data.size());
  EXPECT_EQ(little_endian(record.substr(8, 4)), masked_crc32c(record.substr(0, 8)));
  EXPECT_EQ(record.substr(12, data.size()), data);
  EXPECT_EQ(little_endian(record.substr(12 + data.size())), masked_crc32c(data));
  const uint32_t crc = crc32c(data);
  EXPECT_EQ(masked_crc32c(data), ((crc >> 15) | (crc << 17)) + 0xA282EAD8U);
}

TEST(EventFileTest, AScalarIsTheseBytes) {
  // wall_time 1.0 | step 300 | summary { value { tag "a" simple_value 2.0 } }
  const std::string expected(
      "\x09\x00\x00\x00\x00\x00\x00\xF0\x3F"
      "\x10\xAC\x02"
      "\x2A\x0A"
      "\x0A\x08"
      "\x0A\x01"
      "a"
      "\x15\x00\x00\x00\x40",
      9 + 3 + 2 + 2 + 3 + 5);
  EXPECT_EQ(scalar_event(1, 300, "a", 2), expected);
}

TEST(EventFileTest, IsASequenceOfRecordsThatBeginsWithTheVersion) {
  const TestDirectory directory;
  EventFile first(directory.path() / "runs" / "x");
  EventFile second(directory.path() / "runs" / "x");
  EXPECT_NE(first.path(), second.path());
  EXPECT_TRUE(first.path().filename().string().starts_with("events.out.tfevents."));
  first.add_scalar("train/loss", 0.5, 10);
  first.add_text("args", "{\"bf16\": true}", 0);
  const std::string bytes = read_text_file(first.path());
  std::vector<std::string> records;
  for (size_t at = 0; at < bytes.size();) {
    const size_t length = little_endian(std::string_view(bytes).substr(at, 8));
    records.push_back(bytes.substr(at + 12, length));
    EXPECT_EQ(tfrecord(records.back()), bytes.substr(at, length + 16));
    at += length + 16;
  }
  ASSERT_EQ(records.size(), 3U);
  EXPECT_NE(records[0].find("brain.Event:2"), std::string::npos);
  EXPECT_NE(records[1].find("train/loss"), std::string::npos);
  EXPECT_NE(records[2].find("args/text_summary"), std::string::npos);
}

TEST(EventFileTest, ADirectoryThatCannotBeMadeIsTheUsers) {
  const TestDirectory directory;
  write_text_atomic(directory.path() / "file", "x");
  EXPECT_THROW(EventFile(directory.path() / "file" / "runs"), UserError);
}

}  // namespace
}  // namespace shoehorn
