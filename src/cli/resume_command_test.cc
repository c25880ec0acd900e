#include "cli/resume_command.h"

#include <gtest/gtest.h>

namespace shoehorn {
namespace {

TEST(ResumeCommand, AddsTheFlagAndLeavesOutThoseAboutAnotherBeginning) {
  EXPECT_EQ(resume_command("build/shoehorn", {"train", "--output_dir", "my out", "--bf16"}),
            "build/shoehorn train --output_dir 'my out' --bf16 --resume_from_checkpoint");
  EXPECT_EQ(resume_command("shoehorn", {"train", "--overwrite_output_dir", "--seed", "1"}),
            "shoehorn train --seed 1 --resume_from_checkpoint");
  EXPECT_EQ(resume_command("shoehorn", {"train", "--overwrite-output-dir", "true", "--seed=1"}),
            "shoehorn train --seed=1 --resume_from_checkpoint");
  EXPECT_EQ(resume_command("shoehorn", {"train", "--resume_from_checkpoint", "a/checkpoint-1", "--bf16",
                                        "--resume_from_checkpoint=a/checkpoint-2"}),
            "shoehorn train --bf16 --resume_from_checkpoint");
  EXPECT_EQ(resume_command("shoehorn", {"train", "--overwrite_output_dir", "run.json"}),
            "shoehorn train run.json --resume_from_checkpoint");
}

}  // namespace
}  // namespace shoehorn
