#include "io/model_directory.h"

#include "io/safetensors.h"
#include "io/test_directory.h"

namespace shoehorn {
namespace {

TEST(ModelDirectory, ListsWhatIsThere) {
  const TestDirectory directory;
  for (const char* name : {"config.json", "model.safetensors", "vocab.txt", "tokenizer.json", "README.md",
                           "generation_config.json"})
    directory.write(name, "{}");
  const ModelDirectory model = open_model_directory(directory.path());
  EXPECT_EQ(model.config, directory.path() / "config.json");
  EXPECT_EQ(model.weights, WeightsFormat::kSingleFile);
  std::vector<std::string> names;
  for (const auto& path : model.companions) names.push_back(path.filename());
  EXPECT_EQ(names, (std::vector<std::string>{"tokenizer.json", "vocab.txt", "generation_config.json"}));
  directory.write("model.safetensors.index.json", "{}");
  EXPECT_EQ(open_model_directory(directory.path()).weights, WeightsFormat::kSingleFile);
  std::filesystem::remove(directory.path() / "model.safetensors");
  EXPECT_EQ(open_model_directory(directory.path()).weights, WeightsFormat::kSharded);
}

TEST(ModelDirectory, ListsEachChatTemplate) {
  const TestDirectory directory;
  std::filesystem::create_directories(directory.path() / "additional_chat_templates/folder.jinja");
  for (const char* name : {"chat_template.jinja", "additional_chat_templates/tools.jinja",
                           "additional_chat_templates/rag.jinja", "additional_chat_templates/notes.txt"})
    directory.write(name, "{{ messages }}");
  std::vector<std::string> names;
  for (const auto& path : list_companions(directory.path())) {
    EXPECT_TRUE(belongs_to_tokenizer(path));
    EXPECT_TRUE(is_companion(companion_name(path))) << path;
    names.push_back(companion_name(path));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"chat_template.jinja", "additional_chat_templates/rag.jinja",
                                             "additional_chat_templates/tools.jinja"}));
  EXPECT_FALSE(is_companion("additional_chat_templates/notes.txt"));
  EXPECT_FALSE(is_companion("tools.jinja"));
  // A directory of this name is no reason to call what lies in it something else.
  EXPECT_EQ(companion_name("additional_chat_templates/tokenizer.json"), "tokenizer.json");
}

TEST(ModelDirectory, SaysWhatIsWrong) {
  const TestDirectory directory;
  const auto refusal = [](const std::filesystem::path& path) {
    return message_of<UserError>([&] { open_model_directory(path); });
  };
  EXPECT_TRUE(contains(refusal("bert-base-uncased"), "local directory"));
  EXPECT_TRUE(contains(refusal("google/flan-t5-base"), "hf download google/flan-t5-base"));
  EXPECT_TRUE(contains(refusal(directory.path()), "an empty directory"));
  EXPECT_TRUE(contains(refusal(directory.write("file", "")), "got a file"));
  EXPECT_TRUE(contains(refusal(directory.path() / "file/below"), "got nothing of that name"));
  EXPECT_TRUE(contains(refusal(directory.path()), "expected config.json, got file"));
  directory.write("config.json", "{}");
  EXPECT_TRUE(contains(refusal(directory.path()), "got config.json, file"));
  directory.write("pytorch_model.bin", "");
  EXPECT_TRUE(contains(refusal(directory.path()), "got only pytorch_model.bin; convert it to safetensors"));
  EXPECT_TRUE(contains(message_of<UserError>([&] { SafetensorsModel::open(directory.path()); }),
                       "convert it to safetensors"));
  for (int i = 0; i < 30; ++i) directory.write(fmt::format("z{}", i), "");
  std::filesystem::remove(directory.path() / "pytorch_model.bin");
  EXPECT_TRUE(contains(refusal(directory.path()), "and 20 more"));
}

// With or without the config of its model beside it.
TEST(ModelDirectory, AnAdapterIsNoModel) {
  const TestDirectory directory;
  directory.write("adapter_config.json", "{}");
  const auto refusal = [&] { return message_of<UserError>([&] { open_model_directory(directory.path()); }); };
  EXPECT_TRUE(
      contains(refusal(), "expected config.json, got an adapter (adapter_config.json); load its base model"));
  directory.write("config.json", "{}");
  EXPECT_TRUE(contains(
      refusal(), "expected weights (model.safetensors or model.safetensors.index.json), got an adapter"));
  // An adapter beside a whole model does not hide it.
  directory.write("model.safetensors", "");
  EXPECT_EQ(open_model_directory(directory.path()).weights, WeightsFormat::kSingleFile);
}

}  // namespace
}  // namespace shoehorn
