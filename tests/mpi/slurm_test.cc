// A Slurm of two hosts (hosts_testing.h), of one controller and a daemon each, which run the job files of examples/ranks and
// ranks that srun starts. Skipped where there is no Slurm with PMIx, no Open MPI, and where namespaces are not permitted.
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <memory>
#include <random>
#include <thread>

#include "base/shell_testing.h"
#include "beside_program.h"
#include "cli_support.h"
#include "hosts_testing.h"
#include "io/file.h"
#include "rank_processes.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
namespace fs = std::filesystem;

// Slurm's own steps take a second or two each, on processors that others may use.
constexpr auto kLongest = std::chrono::seconds(90);

// Slurm leaves what it ends so long before it kills it.
constexpr auto kKillWait = std::chrono::seconds(30);

std::string replace_all(std::string text, const std::string& old, const std::string& by) {
  for (size_t at = 0; (at = text.find(old, at)) != std::string::npos; at += by.size())
    text.replace(at, old.size(), by);
  return text;
}

class Slurm : public CliTest {
 protected:
  void SetUp() override {
    if (!has_mpi()) GTEST_SKIP() << kNoMpi;
    if (is_of_mpich()) GTEST_SKIP() << "the job files are for Open MPI";
    for (const char* name : {"slurmctld", "slurmd", "srun", "munged"}) {
      if (!has_program(name)) GTEST_SKIP() << "no " << name << " (slurm-wlm has it)";
    }
    for (const char* name :
         {"of-hosts", "slurm", "slurm/state", "slurm/spool.shoe-a", "slurm/spool.shoe-b", "slurm/tmp"})
      fs::create_directories(path(name));
    hosts_ = std::make_unique<TwoHosts>(path("of-hosts"));
    if (!hosts_->missing().empty()) GTEST_SKIP() << hosts_->missing();
    write_files();
    start_daemons();
    const ProgramRun plugins = on_first({"srun", "--mpi=list"});
    if (!contains(plugins.output + plugins.error, "pmix"))
      GTEST_SKIP() << "Slurm has no PMIx (slurm-wlm-basic-plugins)";
  }

  void TearDown() override {
    if (hosts_ && hosts_->missing().empty()) on_first({"scancel", "--user=root"});
    hosts_.reset();  // and with them what runs on them
    for (StartedProgram& daemon : daemons_) {
      kill(daemon.pid(), SIGKILL);
      daemon.wait();
    }
    CliTest::TearDown();
  }

  // A command as a user of the first host gives it.
  StartedProgram start_on_first(const std::vector<std::string>& command) const {
    std::vector<std::string> words = {
        "env", "SLURM_CONF=" + path("slurm/slurm.conf").string(),
        "PATH=" + fs::path(SHOEHORN_PROGRAM).parent_path().string() + ":/usr/sbin:/usr/bin:/sbin:/bin",
        "OMPI_MCA_btl_tcp_if_include=10.77.0.0/24", "OMPI_MCA_oob_tcp_if_include=10.77.0.0/24"};
    words.insert(words.end(), command.begin(), command.end());
    return {hosts_->words_on_host(0, words), directory_.path(), {}, TwoHosts::kEnter};
  }
  ProgramRun on_first(const std::vector<std::string>& command) const {
    return start_on_first(command).wait();
  }

  // Submits a job file of examples/ranks with its paths in this test's directory, of one rank a host. Returns its number.
  std::string submit(const std::string& name) const {
    const std::string file = read_text_file(fs::path(SHOEHORN_SOURCE_DIR) / "examples/ranks" / name);
    std::ofstream(path(name)) << replace_all(replace_all(file, "/shared/", path("").string()), "bert-base",
                                             "model");
    const ProgramRun run = on_first({"sbatch", "--parsable", "--ntasks-per-node=1", "--cpus-per-task=1",
                                     "--output=" + path("job").string(), path(name).string()});
    EXPECT_EQ(run.exit_code, 0) << run.error;
    return run.output.substr(0, run.output.find_first_of("\n;"));
  }

  std::string job_output() const { return fs::exists(path("job")) ? read_text_file(path("job")) : ""; }
  std::string job_state(const std::string& job) const {
    return on_first({"scontrol", "show", "job", job}).output;
  }

  template <typename Condition>
  static bool wait_for(const Condition& condition) {
    const auto end = std::chrono::steady_clock::now() + kLongest;
    while (std::chrono::steady_clock::now() < end) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return false;
  }
  bool wait_for_output(const std::string& text) const {
    return wait_for([&] { return contains(job_output(), text); });
  }
  bool wait_for_state(const std::string& job, const std::string& text) const {
    return wait_for([&] { return contains(job_state(job), text); });
  }

  std::unique_ptr<TwoHosts> hosts_;

 private:
  void write_files() const {
    const fs::path slurm = path("slurm");
    std::mt19937_64 random(1);
    std::ofstream key(slurm / "munge.key", std::ios::binary);
    for (int i = 0; i < 128; ++i) key << std::to_string(random());
    key.close();
    fs::permissions(slurm / "munge.key", fs::perms::owner_read | fs::perms::owner_write);
    std::ofstream(slurm / "mpi.conf") << "PMIxCliTmpDirBase=" << (slurm / "tmp").string() << '\n';
    std::ofstream(slurm / "slurm.conf")
        << "ClusterName=shoehorn\nSlurmctldHost=shoe-a(" << TwoHosts::kLinkA
        << ")\nSlurmUser=root\nSlurmdUser=root\n"
        << "AuthType=auth/munge\nAuthInfo=socket=" << (slurm / "munge.socket").string() << '\n'
        << "StateSaveLocation=" << (slurm / "state").string()
        << "\nSlurmdSpoolDir=" << (slurm / "spool.%n").string()
        << "\nSlurmctldPidFile=" << (slurm / "controller.pid").string()
        << "\nSlurmdPidFile=" << (slurm / "daemon.%n.pid").string()
        << "\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/cons_tres\n"
        << "SelectTypeParameters=CR_Core\nReturnToService=2\nKillWait=" << kKillWait.count() << '\n'
        << "NodeName=shoe-a NodeAddr=" << TwoHosts::kLinkA << " CPUs=2\n"
        << "NodeName=shoe-b NodeAddr=" << TwoHosts::kLinkB << " CPUs=2\n"
        << "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n";
  }

  void start(const std::vector<std::string>& words, const std::string& program) {
    const fs::path scratch = path("daemon-" + std::to_string(daemons_.size()));
    fs::create_directories(scratch);
    daemons_.emplace_back(words, scratch, ProgramLimits{}, program);
  }

  void start_daemons() {
    const std::string slurm = path("slurm").string();
    start({"--foreground", "--force", "--socket=" + slurm + "/munge.socket",
           "--key-file=" + slurm + "/munge.key", "--pid-file=" + slurm + "/munge.pid",
           "--seed-file=" + slurm + "/munge.seed", "--log-file=" + slurm + "/munge.log"},
          "/usr/sbin/munged");
    ASSERT_TRUE(wait_for([&] { return fs::exists(slurm + "/munge.socket"); })) << daemons_.back().output();
    const std::string conf = slurm + "/slurm.conf";
    start(hosts_->words_on_host(0, {"slurmctld", "-D", "-f", conf}), TwoHosts::kEnter);
    // Each host with files of its own where ranks meet their daemon.
    const std::string daemon = fmt::format(
        "mount -t proc proc /proc && mount -t tmpfs tmp {0}/tmp && mount -t tmpfs shm /dev/shm && exec slurmd -D -f {0}/slurm.conf",
        slurm);
    for (const int64_t host : {0, 1})
      start(hosts_->words_on_host(host, {"unshare", "--mount", "sh", "-c", daemon}), TwoHosts::kEnter);
    ASSERT_TRUE(wait_for([&] {
      const std::string nodes = on_first({"sinfo", "--noheader", "--Node", "--format=%t"}).output;
      return nodes == "idle\nidle\n";
    })) << on_first({"sinfo"}).output
        << daemons_.back().output();
  }

  std::vector<StartedProgram> daemons_;
  const ShortWaitOfMpirun short_wait_;
};

TEST_F(Slurm, RanksOfSrunTrainAsThoseOfOneHostDo) {
  const auto train = [&](const std::string& output) {
    return train_words({"--num_threads", "1", "--max_steps", "10", "--output_dir", path(output).string()});
  };
  std::vector<std::string> one = {"launch", "--nproc_per_node", "2"};
  for (const std::string& word : train("one-host")) one.push_back(word);
  const ProgramRun expected = run(one);
  ASSERT_EQ(expected.exit_code, 0) << expected.error;
  const int64_t before = hosts_->bytes_on_link();
  std::vector<std::string> two = {"srun", "--nodes=2", "--ntasks=2", "--mpi=pmix", SHOEHORN_PROGRAM};
  for (const std::string& word : train("two-hosts")) two.push_back(word);
  const ProgramRun run = on_first(two);
  ASSERT_EQ(run.exit_code, 0) << run.output << run.error;
  EXPECT_TRUE(contains(run.output, "2 ranks")) << run.output;
  EXPECT_GT(hosts_->bytes_on_link() - before, 10 * fs::file_size(path("one-host") / "model.safetensors") / 2);
  EXPECT_TRUE(read_text_file(path("two-hosts") / "model.safetensors") ==
              read_text_file(path("one-host") / "model.safetensors"));
}

// The rank that is left notices, says who is gone, and ends by itself, before Slurm kills it.
TEST_F(Slurm, RanksOfSrunEndBehindAKilledOne) {
  std::ofstream(path("train.csv")) << long_labelled_csv(400, 7);
  std::vector<std::string> words = {
      "srun", "--nodes=2", "--ntasks=2", "--mpi=pmix", "--kill-on-bad-exit=1", SHOEHORN_PROGRAM};
  for (const std::string& word : train_words({"--num_threads", "1", "--max_steps", "100000", "--save_steps",
                                              "200", "--output_dir", path("out").string()}))
    words.push_back(word);
  StartedProgram srun = start_on_first(words);
  ASSERT_TRUE(wait_for([&] { return fs::exists(path("out") / "checkpoint-200"); })) << srun.output();
  const auto begin = std::chrono::steady_clock::now();
  hosts_->signal_second(SHOEHORN_PROGRAM, SIGKILL);
  const ProgramRun run = srun.wait();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kKillWait);
  EXPECT_EQ(run.exit_code, 128 + SIGKILL) << run.error;
  EXPECT_TRUE(contains(run.error, "task 1: Killed")) << run.error;
  EXPECT_TRUE(contains(run.error, "task 0: Exited with exit code 1")) << run.error;
  EXPECT_TRUE(contains(run.error,
                       "[ranks] expected rank 1 on shoe-b to send before the run is stopped by SIGTERM, got "
                       "nothing at rank 0 on shoe-a"))
      << run.error;
  EXPECT_FALSE(hosts_->runs_program(SHOEHORN_PROGRAM));
}

// Stopped by the signal that says its time will be over soon, the job is queued again and goes on from its checkpoint. One that is
// cancelled is not.
TEST_F(Slurm, AJobOfSrunGoesOnInItsNextTurn) {
  std::ofstream(path("train.csv")) << long_labelled_csv(400, 7);
  const std::string job = submit("slurm_srun.sbatch");
  ASSERT_TRUE(wait_for_output("checkpoint-200")) << job_output();
  on_first({"scancel", "--signal=TERM", job});
  ASSERT_TRUE(wait_for_state(job, "Restarts=1")) << job_output() << job_state(job);
  EXPECT_TRUE(contains(job_output(), "Stopped by SIGTERM after step ")) << job_output();
  EXPECT_TRUE(contains(job_output(), "srun --mpi=pmix --ntasks=2 "))
      << "how to go on by hand: " << job_output();
  // Slurm lets it wait for two minutes: another job takes its turn.
  on_first({"scancel", job});
  const std::string next = submit("slurm_srun.sbatch");
  ASSERT_TRUE(wait_for_output("resumed from ")) << job_output() << job_state(next);
  on_first({"scancel", next});
  EXPECT_TRUE(wait_for_state(next, "JobState=CANCELLED")) << job_state(next);
  EXPECT_TRUE(contains(job_state(next), "Restarts=0")) << job_state(next);
}

TEST_F(Slurm, AJobOfLaunchStartsAgainBehindAKilledRank) {
  std::ofstream(path("train.csv")) << long_labelled_csv(400, 7);
  const std::string job = submit("slurm_launch.sbatch");
  ASSERT_TRUE(wait_for_output("checkpoint-200")) << job_output();
  EXPECT_TRUE(contains(job_output(), "2 ranks")) << "as many as the job has tasks: " << job_output();
  hosts_->signal_second(SHOEHORN_PROGRAM, SIGKILL);
  ASSERT_TRUE(wait_for_output("restart 1 of 3 with 1 rank goes on from ")) << job_output();
  ASSERT_TRUE(wait_for_output("resumed from ")) << job_output();
  on_first({"scancel", "--signal=TERM", "--batch", job});
  EXPECT_TRUE(wait_for_state(job, "ExitCode=143:0")) << job_state(job) << job_output();
}

}  // namespace
}  // namespace shoehorn
