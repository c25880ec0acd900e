#include "io/tensor_files.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <numeric>
#include <random>

#include "base/error.h"
#include "io/checkpoint_directory.h"
#include "io/json_file.h"
#include "io/manifest.h"
#include "io/model_directory.h"
#include "io/test_directory.h"

namespace shoehorn {
namespace {

namespace fs = std::filesystem;

// How a tensor is cut among so many owners: the slice of each.
using Layout = std::function<std::vector<Slice>(const std::vector<int64_t>& shape, int32_t owners)>;

int64_t elements_of(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::vector<Slice> flat(const std::vector<int64_t>& shape, int32_t owners) {
  const int64_t elements = elements_of(shape);
  const int64_t each = (elements + owners - 1) / owners;
  std::vector<Slice> slices;
  for (int64_t i = 0; i < owners; ++i)
    slices.push_back(Slice::range(std::min(i * each, elements), std::min((i + 1) * each, elements)));
  return slices;
}

std::vector<Slice> cut_along(int64_t axis, const std::vector<int64_t>& shape, int32_t owners) {
  const int64_t dim = shape[static_cast<size_t>(axis)];
  std::vector<Slice> slices;
  for (int64_t i = 0; i < owners; ++i)
    slices.push_back(Slice::block(shape, axis, i * dim / owners, (i + 1) * dim / owners));
  return slices;
}

std::vector<Slice> rows(const std::vector<int64_t>& shape, int32_t owners) {
  return cut_along(0, shape, owners);
}

std::vector<Slice> columns(const std::vector<int64_t>& shape, int32_t owners) {
  return cut_along(std::ssize(shape) - 1, shape, owners);
}

std::vector<Slice> all_of_the_last(const std::vector<int64_t>& shape, int32_t owners) {
  std::vector<Slice> slices(static_cast<size_t>(owners));
  slices.back() = Slice::whole(elements_of(shape));
  return slices;
}

const std::vector<Layout> kLayouts = {flat, rows, columns, all_of_the_last};

// Element i of a tensor is i plus a number of the tensor's own.
std::vector<int32_t> values_of(size_t tensor, const Slice& slice) {
  std::vector<int32_t> values;
  for (const SliceRun& run : SliceRuns(slice)) {
    for (int64_t i = 0; i < run.length; ++i)
      values.push_back(static_cast<int32_t>(run.global + i + 1'000'000 * static_cast<int64_t>(tensor)));
  }
  return values;
}

class SlicedFiles : public testing::Test {
 protected:
  fs::path file() const { return directory_.path() / "model.safetensors"; }
  fs::path file_of(int32_t number, int32_t owners) const {
    return directory_.path() / owner_file_name("model.safetensors", {number, owners});
  }

  // Each owner's file with its slices of kTensors. `change` may spoil what an owner says that it has.
  void write(const Layout& layout, int32_t owners,
             const std::function<void(int32_t number, std::vector<SliceSpec>&)>& change = {}) const {
    for (int32_t number = 0; number < owners; ++number) {
      std::vector<SliceSpec> specs;
      for (const TensorSpec& tensor : kTensors)
        specs.push_back({tensor, layout(tensor.shape, owners)[static_cast<size_t>(number)]});
      std::erase_if(specs, [](const SliceSpec& spec) { return spec.slice.runs == 0; });
      if (change) change(number, specs);
      write_owner(file_of(number, owners), specs);
    }
  }

  static void write_owner(const fs::path& path, const std::vector<SliceSpec>& specs) {
    SafetensorsWriter writer = slices_writer(path, specs);
    for (const TensorSpec& tensor : writer.tensors()) {
      const auto known = std::find_if(kTensors.begin(), kTensors.end(),
                                      [&](const TensorSpec& one) { return one.name == tensor.name; });
      const auto spec = std::find_if(specs.begin(), specs.end(),
                                     [&](const SliceSpec& one) { return one.whole.name == tensor.name; });
      const std::vector<int32_t> values =
          values_of(static_cast<size_t>(known - kTensors.begin()), spec->slice);
      writer.append(tensor.name, std::as_bytes(std::span(values)));
    }
    writer.commit();
  }

  std::string refusal() const {
    return message_of<DamagedFile>([&] { TensorFiles::open(file()); });
  }

  static const std::vector<TensorSpec> kTensors;
  const TestDirectory directory_;
};

const std::vector<TensorSpec> SlicedFiles::kTensors = {{"cube", DType::kI32, {5, 7, 9}},
                                                       {"matrix", DType::kI32, {300, 101}},
                                                       {"scalars", DType::kI32, {3}},
                                                       {"wide", DType::kI32, {2, 40'000}}};

// However the files are cut, a reader gets the elements that it asks for.
TEST_F(SlicedFiles, GiveAnySliceOfATensor) {
  for (size_t i = 0; i < kLayouts.size(); ++i) {
    const int32_t owners = static_cast<int32_t>(i) + 2;
    write(kLayouts[i], owners);
    const TensorFiles files = TensorFiles::open(file());
    EXPECT_EQ(files.are_sliced(), i < 3) << "the last layout leaves tensors whole";
    EXPECT_EQ(std::ssize(files.files()), owners);
    EXPECT_EQ(files.names(), (std::vector<std::string>{"cube", "matrix", "scalars", "wide"}));
    for (const Layout& layout : kLayouts) {
      VerifiedTensorFiles verified(files);
      for (size_t t = 0; t < kTensors.size(); ++t) {
        EXPECT_EQ(files.tensor(kTensors[t].name).shape, kTensors[t].shape);
        for (const Slice& slice : layout(kTensors[t].shape, 3)) {
          const std::vector<int32_t> expected = values_of(t, slice);
          std::vector<int32_t> read(expected.size());
          files.read_slice(kTensors[t].name, slice, 0, std::as_writable_bytes(std::span(read)));
          EXPECT_TRUE(read == expected) << kTensors[t].name << " " << i << ": " << slice_text(slice);
          // In pieces, with checksums.
          std::fill(read.begin(), read.end(), -1);
          for (size_t at = 0; at < read.size(); at += 1000) {
            const auto piece = std::span(read).subspan(at, std::min<size_t>(1000, read.size() - at));
            verified.read_slice(kTensors[t].name, slice, static_cast<int64_t>(at),
                                std::as_writable_bytes(piece));
          }
          EXPECT_TRUE(read == expected) << kTensors[t].name << " " << i << ": " << slice_text(slice);
        }
      }
      verified.finish();
    }
    for (const fs::path& path : list_owner_files(file())) fs::remove(path);
  }
}

TEST_F(SlicedFiles, OfOneOwnerAreOrdinaryFiles) {
  SafetensorsWriter writer(file(), {{"a", DType::kI32, {2, 2}}});
  const std::vector<int32_t> values = values_of(0, Slice::whole(4));
  writer.append("a", std::as_bytes(std::span(values)));
  writer.commit();
  const TensorFiles files = TensorFiles::open(file());
  EXPECT_FALSE(files.are_sliced());
  std::vector<int32_t> column(2);
  files.read_slice("a", Slice::block(std::vector<int64_t>{2, 2}, 1, 1, 2), 0,
                   std::as_writable_bytes(std::span(column)));
  EXPECT_EQ(column, (std::vector<int32_t>{1, 3}));
  std::vector<int32_t> last(1);
  files.read_range("a", 12, std::as_writable_bytes(std::span(last)));
  EXPECT_EQ(last[0], 3);
  EXPECT_THROW(files.read_range("a", 12, std::as_writable_bytes(std::span(column))), InternalError);
  EXPECT_TRUE(contains(message_of<UserError>([&] { TensorFiles::open(directory_.path() / "b.safetensors"); }),
                       "b.safetensors"));
}

TEST_F(SlicedFiles, AMissingFileIsNamed) {
  write(columns, 3);
  for (const int32_t number : {0, 1, 2}) {
    const fs::path path = file_of(number, 3);
    fs::rename(path, directory_.path() / "away");
    const std::string message = refusal();
    EXPECT_TRUE(contains(message, path.filename().string()) &&
                contains(message, "of each of 3 processes, got none"))
        << message;
    fs::rename(directory_.path() / "away", path);
  }
  EXPECT_NO_THROW(TensorFiles::open(file()));
  fs::copy_file(file_of(1, 3), file_of(1, 4));
  EXPECT_TRUE(contains(refusal(), "got one of")) << refusal();
}

TEST_F(SlicedFiles, SlicesThatDoNotCoverATensorAreNamed) {
  write(rows, 3, [](int32_t number, std::vector<SliceSpec>& specs) {
    if (number == 1) std::erase_if(specs, [](const SliceSpec& spec) { return spec.whole.name == "matrix"; });
  });
  EXPECT_TRUE(contains(refusal(),
                       "expected elements 10100 to 20199 of tensor 'matrix' in one of 3 files, "
                       "got them in none"))
      << refusal();
  write(columns, 3, [](int32_t number, std::vector<SliceSpec>& specs) {
    if (number == 2) specs[0].slice = Slice::block(specs[0].whole.shape, 2, 5, 9);
  });
  EXPECT_TRUE(contains(refusal(),
                       "expected elements 5 to 5 of tensor 'cube' in one file, got them in "
                       "model-rank-00001-of-00003.safetensors too"))
      << refusal();
}

TEST_F(SlicedFiles, OtherShapesAndTypesAreNamed) {
  write(flat, 2, [](int32_t number, std::vector<SliceSpec>& specs) {
    if (number == 1) specs[1].whole.shape = {101, 300};
  });
  EXPECT_TRUE(contains(refusal(),
                       "expected tensor 'matrix' as int32 of shape [300, 101], as in "
                       "model-rank-00000-of-00002.safetensors, got int32 of shape [101, 300]"))
      << refusal();
  write(flat, 2, [](int32_t number, std::vector<SliceSpec>& specs) {
    if (number == 1) specs[0].whole.dtype = DType::kF32;
  });
  EXPECT_TRUE(contains(refusal(), "got float32 of shape [5, 7, 9]")) << refusal();
}

// What the metadata of a file may not say.
TEST_F(SlicedFiles, MalformedSlicesAreRefused) {
  const auto refusal_of = [&](const std::string& slices) {
    SafetensorsMetadata metadata = kPyTorchMetadata;
    metadata["slices"] = slices;
    SafetensorsWriter writer(file(), {{"a", DType::kU8, {4}}}, metadata);
    const std::string data = "abcd";
    writer.append("a", std::as_bytes(std::span(data)));
    writer.commit();
    return message_of<UserError>([&] { TensorFiles::open(file()); });
  };
  EXPECT_TRUE(contains(refusal_of("{"), "expected JSON"));
  EXPECT_TRUE(contains(refusal_of("[]"), "expected an object"));
  EXPECT_TRUE(contains(refusal_of("{}"), "tensor 'a'] expected a slice in the metadata, got none"));
  const std::string whole = R"({"shape": [4], "offset": 0, "length": 4, "stride": 4, "runs": 1})";
  EXPECT_TRUE(
      contains(refusal_of("{\"b\": " + whole + "}"), "tensor 'b'] expected slices of tensors of this file"));
  for (const char* facts :
       {"3", R"({"shape": [4]})", R"({"shape": 4, "offset": 0, "length": 4, "stride": 4, "runs": 1})",
        R"({"shape": [4], "offset": 0, "length": 4, "stride": 4, "rums": 1})"})
    EXPECT_TRUE(contains(refusal_of(std::string("{\"a\": ") + facts + "}"), "tensor 'a'] expected")) << facts;
  EXPECT_TRUE(
      contains(refusal_of(R"({"a": {"shape": [4], "offset": -1, "length": 4, "stride": 4, "runs": 1}})"),
               "a whole number, 0 or more, as 'offset', got -1"));
  EXPECT_TRUE(
      contains(refusal_of(R"({"a": {"shape": [4], "offset": 1, "length": 4, "stride": 4, "runs": 1}})"),
               "expected a slice of shape [4]"));
  EXPECT_TRUE(
      contains(refusal_of(R"({"a": {"shape": [8], "offset": 1, "length": 3, "stride": 3, "runs": 1}})"),
               "expected shape [3], the elements of its slice, got [4]"));
  EXPECT_TRUE(contains(
      refusal_of(
          R"({"a": {"shape": [4611686018427387904, 4], "offset": 0, "length": 4, "stride": 4, "runs": 1}})"),
      "63 bits"));
}

TEST(OwnerFiles, HaveNamesThatCanBeReadBack) {
  EXPECT_EQ(owner_file_name("model.safetensors", {2, 31}), "model-rank-00002-of-00031.safetensors");
  EXPECT_EQ(owner_of_file("model-rank-00002-of-00031.safetensors", "model.safetensors"), (Owner{2, 31}));
  for (const char* name :
       {"model.safetensors", "model-00002-of-00031.safetensors", "model-rank-0002-of-00031.safetensors",
        "model-rank-00031-of-00031.safetensors", "model-rank--0002-of-00031.safetensors",
        "model-rank-00002-of-00031.json", "model-rank-00002-of-000310.safetensors",
        "optimizer-rank-00002-of-00031.safetensors"})
    EXPECT_FALSE(owner_of_file(name, "model.safetensors")) << name;
  EXPECT_THROW(owner_file_name("model.safetensors", {2, 2}), InternalError);
}

// Processes that write a checkpoint together.
class StagedParts : public SlicedFiles {
 protected:
  // Writes an owner's files below `staging`.
  void write_files(const fs::path& staging, const Owner& owner) const {
    std::vector<SliceSpec> specs;
    for (const TensorSpec& tensor : kTensors) {
      const Slice slice = columns(tensor.shape, owner.count)[static_cast<size_t>(owner.number)];
      if (slice.runs > 0) specs.push_back({tensor, slice});
    }
    write_owner(staging / owner_file_name("model.safetensors", owner), specs);
  }

  // In a process of its own; true where it ended well.
  bool run_owner(const fs::path& staging, const Owner& owner, bool commits) const {
    const pid_t child = fork();
    if (child == 0) {
      StagedPart part(staging, owner);
      write_files(part.path(), owner);
      if (commits) part.commit();
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status == 0;
  }
};

TEST_F(StagedParts, AreOneCheckpointOnceAllAreThere) {
  const int32_t owners = 4;
  StagedDirectory staged(directory_.path(), 7);
  for (int32_t number = owners - 1; number > 0; --number)
    EXPECT_TRUE(run_owner(staged.path(), {number, owners}, true));
  write_files(staged.path(), {0, owners});
  EXPECT_FALSE(fs::exists(directory_.path() / "checkpoint-7"));
  const fs::path checkpoint = staged.commit(owners);
  EXPECT_EQ(checkpoint_defect(checkpoint, VerifiedFiles::kAll), "");
  const std::optional<Manifest> manifest = read_manifest(checkpoint);
  ASSERT_TRUE(manifest);
  EXPECT_EQ(std::ssize(*manifest), owners) << "the parts' own lists are gone";
  for (const auto& [name, listed] : *manifest) EXPECT_EQ(listed.check, ListedFile::Check::kXxh128) << name;
  EXPECT_EQ(std::ssize(list_directory(checkpoint)), owners + 1);
  const TensorFiles files = TensorFiles::open(checkpoint / "model.safetensors");
  std::vector<int32_t> matrix(300 * 101);
  files.read_range("matrix", 0, std::as_writable_bytes(std::span(matrix)));
  EXPECT_TRUE(matrix == values_of(1, Slice::whole(300 * 101)));
  fs::remove(checkpoint / owner_file_name("model.safetensors", {2, owners}));
  EXPECT_TRUE(contains(checkpoint_defect(checkpoint), "model-rank-00002-of-00004.safetensors"));
}

// The list has what was meant, so that what a disk changed between the part and the commit is found.
TEST_F(StagedParts, AreCheckedByWhatWasWritten) {
  StagedDirectory staged(directory_.path(), 7);
  EXPECT_TRUE(run_owner(staged.path(), {1, 2}, true));
  write_files(staged.path(), {0, 2});
  flip_bit(staged.path() / owner_file_name("model.safetensors", {1, 2}), 8 * 5000);
  const fs::path checkpoint = staged.commit(2);
  EXPECT_TRUE(contains(checkpoint_defect(checkpoint, VerifiedFiles::kAll), "expected the checksum xxh128"));
}

TEST_F(StagedParts, WithoutOneOfThemThereIsNoCheckpoint) {
  const auto refusal_of = [&](const std::function<void(const fs::path&)>& spoil) {
    StagedDirectory staged(directory_.path(), 7);
    EXPECT_TRUE(run_owner(staged.path(), {1, 3}, true));
    write_files(staged.path(), {0, 3});
    spoil(staged.path());
    return message_of<DamagedFile>([&] { staged.commit(3); });
  };
  EXPECT_TRUE(contains(refusal_of([&](const fs::path& staging) { run_owner(staging, {2, 3}, false); }),
                       "expected the list of the files of process 2 of 3, got none"));
  EXPECT_TRUE(contains(refusal_of([&](const fs::path& staging) {
                         run_owner(staging, {2, 3}, true);
                         fs::resize_file(staging / owner_file_name("model.safetensors", {2, 3}), 100);
                       }),
                       "model-rank-00002-of-00003.safetensors] expected"));
  EXPECT_TRUE(list_directory(directory_.path()).empty());
}

}  // namespace
}  // namespace shoehorn
