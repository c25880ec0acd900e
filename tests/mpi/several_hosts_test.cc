// Ranks on two hosts, which are namespaces of this machine joined by a link (hosts_testing.h): what goes over it, and what
// happens when it is cut. Skipped where there is no MPI, and where namespaces are not permitted.
#include <array>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "base/process.h"
#include "beside_program.h"
#include "cli_support.h"
#include "environment_count.h"
#include "hosts_testing.h"
#include "io/checkpoint_directory.h"
#include "io/file.h"
#include "io/json_file.h"
#include "rank_processes.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
namespace fs = std::filesystem;

constexpr double kTimeoutSeconds = 5;  // --ddp_timeout
// Ranks end in this time, behind the timeout where that is what they notice.
constexpr double kMostSecondsOfAnEnd = kIsSanitized ? 60 : 10;
// mpirun waits for its daemons then; others may use the processors of a test.
constexpr double kNoHangSeconds = 60;

class SeveralHosts : public CliTest {
 protected:
  void SetUp() override {
    if (!has_mpi()) GTEST_SKIP() << kNoMpi;
    fs::create_directories(path("of-hosts"));
    hosts_ = std::make_unique<TwoHosts>(path("of-hosts"));
    if (!hosts_->missing().empty()) GTEST_SKIP() << hosts_->missing();
  }

  // One rank a host, of one thread, so that their products are those of two ranks on one host.
  std::vector<std::string> train(const std::string& output, const std::vector<std::string>& more) const {
    std::vector<std::string> words = train_words({"--num_threads", "1"});
    words.insert(words.end(), {"--output_dir", path(output).string()});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  StartedProgram start_on_hosts(const std::string& output, const std::vector<std::string>& more,
                                const std::vector<std::string>& of_launch = {}) const {
    std::vector<std::string> words = {SHOEHORN_PROGRAM,   "launch",
                                      "--hostfile",       hosts_->hostfile().string(),
                                      "--nproc_per_node", std::to_string(2 * ranks_per_host_)};
    words.insert(words.end(), of_launch.begin(), of_launch.end());
    for (const std::string& word : train(output, more)) words.push_back(word);
    return {hosts_->words_at_start(words), directory_.path(), {}, TwoHosts::kEnter};
  }

  // What a run sends over the link.
  int64_t link_bytes_of(const std::string& output, const std::vector<std::string>& more) const {
    const int64_t before = hosts_->bytes_on_link();
    const ProgramRun run = start_on_hosts(output, more).wait();
    EXPECT_EQ(run.exit_code, 0) << run.output << run.error;
    EXPECT_TRUE(contains(run.output, " within its host and ")) << "what it sends is told by link";
    EXPECT_TRUE(contains(run.output, fmt::format(" between hosts by rank {},", ranks_per_host_ - 1)))
        << run.output;
    return hosts_->bytes_on_link() - before;
  }

  // Between hosts, by a rank that sends there.
  int64_t planned_bytes_of_a_step(const std::vector<std::string>& more) const {
    std::vector<std::string> words = train("planned", more);
    words[0] = "plan";
    words.insert(words.end(), {"--world_size", std::to_string(2 * ranks_per_host_), "--ranks_per_host",
                               std::to_string(ranks_per_host_), "--json"});
    const ProgramRun run = this->run(words);
    EXPECT_EQ(run.exit_code, 0) << run.error;
    return nlohmann::json::parse(run.output).at("sent_by_link").at("between_hosts_bytes").get<int64_t>();
  }

  std::unique_ptr<TwoHosts> hosts_;
  int ranks_per_host_ = 1;

 private:
  const ShortWaitOfMpirun short_wait_;
};

// The result is that of two ranks on one host, to the byte, and what they tell each other goes over the link: what the plan says,
// with the headers of packets, acknowledgements and small messages.
TEST_F(SeveralHosts, TrainAsOneHostDoes) {
  constexpr int64_t kFewSteps = 2, kSteps = 20;
  struct Method {
    std::string name;
    int ranks_per_host;
    int senders;  // ranks that send to the other host
    std::vector<std::string> words;
    std::vector<std::string> on_one_host = {};  // more: what two hosts say by themselves
  };
  // A ring goes from host to host once each way. Groups share within a host, so that each rank has its replica on the other.
  const std::vector<Method> methods = {
      {"ddp", 1, 2, {"--zero_stage", "0"}},
      {"states", 1, 2, {"--zero_stage", "1"}},
      {"gradients", 1, 2, {"--zero_stage", "2"}},
      {"weights", 1, 2, {"--zero_stage", "3"}},
      {"hybrid", 2, 4, {"--fsdp", "hybrid_shard"}, {"--zero_group_size", "2"}}};
  for (const Method& method : methods) {
    SCOPED_TRACE(fmt::format("{}, reached by {}", method.name, hosts_->way_to_hosts()));
    ranks_per_host_ = method.ranks_per_host;
    hosts_->give_slots(ranks_per_host_);
    std::vector<std::string> always = method.words;
    always.insert(always.end(), {"--zero_persistence_threshold", "0", "--logging_steps", "100"});
    const auto with_steps = [&](int64_t steps) {
      std::vector<std::string> words = always;
      words.insert(words.end(), {"--save_strategy", "no", "--max_steps", std::to_string(steps)});
      return words;
    };
    std::vector<std::string> words = {"launch", "--nproc_per_node", std::to_string(2 * ranks_per_host_)};
    for (const std::string& word : train("one-host-" + method.name, with_steps(kSteps)))
      words.push_back(word);
    words.insert(words.end(), method.on_one_host.begin(), method.on_one_host.end());
    const ProgramRun one = run(words);
    ASSERT_EQ(one.exit_code, 0) << one.output << one.error;
    const std::string two_hosts = "two-hosts-" + method.name;
    const int64_t few = link_bytes_of("few-steps-" + method.name, with_steps(kFewSteps));
    const int64_t all = link_bytes_of(two_hosts, with_steps(kSteps));
    EXPECT_TRUE(read_text_file(path(two_hosts) / "model.safetensors") ==
                read_text_file(path("one-host-" + method.name) / "model.safetensors"));
    const int64_t planned = method.senders * planned_bytes_of_a_step(always);
    // Packets are as large as the moment permits: headers and acknowledgements are up to a tenth of a run, and may be all
    // of one run and none of the other.
    EXPECT_GE(all - few, (kSteps - kFewSteps) * planned - few / 10);
    EXPECT_LE(all - few, (kSteps - kFewSteps) * planned + all / 10);
  }
}

// The launcher's pod, which is none of the hosts, has these variables (kubeflow/mpi-operator, pkg/controller/mpi_job_controller.go).
TEST_F(SeveralHosts, TrainInTheEnvironmentOfKubernetesMpiOperator) {
  if (is_of_mpich()) GTEST_SKIP() << "the job's file is for Open MPI";
  const std::string file =
      read_text_file(fs::path(SHOEHORN_SOURCE_DIR) / "examples/ranks/kubernetes_mpijob.yaml");
  ASSERT_TRUE(contains(
      file, "command: [shoehorn, launch, --hostfile, /etc/mpi/hostfile, --max_restarts, \"3\", train]"));
  const std::string hostfile = hosts_->hostfile().string();
  std::vector<std::string> words = {
      "env", "K_MPI_JOB_ROLE=launcher", "OMPI_MCA_orte_keep_fqdn_hostnames=true",
      "OMPI_MCA_orte_default_hostfile=" + hostfile, "OMPI_MCA_orte_set_default_slots=1"};
  if (hosts_->way_to_hosts() == std::string("ssh"))
    words.emplace_back("OMPI_MCA_plm_rsh_args=-o ConnectionAttempts=10");
  words.insert(words.end(), {SHOEHORN_PROGRAM, "launch", "--hostfile", hostfile, "--max_restarts", "3"});
  for (const std::string& word : train("pods", {"--max_steps", "3"})) words.push_back(word);
  const int64_t before = hosts_->bytes_on_link();
  const ProgramRun run =
      StartedProgram(hosts_->words_at_start(words), directory_.path(), {}, TwoHosts::kEnter).wait();
  ASSERT_EQ(run.exit_code, 0) << run.output << run.error;
  EXPECT_TRUE(contains(run.output, "2 ranks")) << "the slots of the file: " << run.output;
  EXPECT_GT(hosts_->bytes_on_link(), before);
}

// Over a link of 4 Mbit/s a run takes the time of its bytes, and has the same result.
TEST_F(SeveralHosts, WaitForASlowLink) {
  constexpr double kBitsPerSecond = 4e6;
  const std::vector<std::string> steps = {"--max_steps",     "10", "--save_strategy", "no",
                                          "--logging_steps", "100"};
  link_bytes_of("fast", steps);
  if (!hosts_->limit_link(kBitsPerSecond))
    GTEST_SKIP() << "no tc with a token bucket (iproute2, CONFIG_NET_SCH_TBF)";
  const auto begin = std::chrono::steady_clock::now();
  link_bytes_of("slow", steps);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const auto bytes = static_cast<double>(10 * planned_bytes_of_a_step({}));  // either way
  EXPECT_GE(seconds, (bytes - TwoHosts::kBurstBytes) * 8 / kBitsPerSecond);
  EXPECT_GT(bytes, 2 * TwoHosts::kBurstBytes) << "there is something to wait for";
  EXPECT_TRUE(read_text_file(path("slow") / "model.safetensors") ==
              read_text_file(path("fast") / "model.safetensors"));
}

// Over a link on which each packet takes 50 ms every message of a step waits for the one before, and the result is the same.
TEST_F(SeveralHosts, WaitForALateLink) {
  constexpr auto kDelay = std::chrono::milliseconds(50);
  constexpr int64_t kSteps = 10;
  const std::vector<std::string> steps = {"--max_steps", std::to_string(kSteps), "--save_strategy",
                                          "no",          "--logging_steps",      "100"};
  link_bytes_of("early", steps);
  if (const std::string why = hosts_->delay_link(kDelay); !why.empty()) GTEST_SKIP() << why;
  link_bytes_of("late", steps);
  constexpr double kMessagesOfARing = 2;  // of two ranks: sums, and what became of them
  const auto seconds = read_json(path("late") / "all_results.json").at("train_runtime").get<double>();
  EXPECT_GE(seconds, kSteps * kMessagesOfARing * std::chrono::duration<double>(kDelay).count());
  EXPECT_TRUE(read_text_file(path("late") / "model.safetensors") ==
              read_text_file(path("early") / "model.safetensors"));
}

// A stop of the launcher reaches the ranks on both hosts: the first saves, and the exit code is that of one process.
TEST_F(SeveralHosts, StopTogether) {
  StartedProgram program = start_on_hosts(
      "stopped", {"--max_steps", "100000", "--save_steps", "100000000", "--logging_steps", "10"});
  for (int i = 0; i < 2400 && program.output().find("step 10 ") == std::string::npos; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  kill(program.pid(), SIGTERM);
  const ProgramRun result = program.wait();
  EXPECT_EQ(result.exit_code, 128 + SIGTERM) << result.output << result.error;
  const LatestCheckpoint latest = latest_checkpoint(path("stopped"));
  ASSERT_TRUE(latest.path) << result.output << result.error;
  EXPECT_EQ(checkpoint_defect(*latest.path, VerifiedFiles::kAll), "");
  EXPECT_FALSE(hosts_->runs_program(SHOEHORN_PROGRAM));
}

// mpirun notices that a host answers nothing any more, long before the ranks' own timeout; the one that is left goes on from the last
// checkpoint and takes all steps. Here it notices sooner than launch asks it to.
TEST_F(SeveralHosts, GoOnWithoutAHostThatIsLost) {
  const ShortWaitOfMpirun short_wait;
  constexpr std::array kNames = {"time", "intvl", "probes"};
  for (const char* name : kNames) setenv(fmt::format("OMPI_MCA_oob_tcp_keepalive_{}", name).c_str(), "2", 1);
  StartedProgram program = start_on_hosts("left",
                                          {"--max_steps", "1000", "--save_steps", "200", "--save_total_limit",
                                           "2", "--logging_steps", "200", "--ddp_timeout", "600"},
                                          {"--max_restarts", "1"});
  for (const char* name : kNames) unsetenv(fmt::format("OMPI_MCA_oob_tcp_keepalive_{}", name).c_str());
  for (int i = 0; i < 2400 && program.output().find("step 400 ") == std::string::npos; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto begin = std::chrono::steady_clock::now();
  hosts_->cut_off_second();
  const ProgramRun result = program.wait();
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
            2 * kNoHangSeconds);
  EXPECT_EQ(result.exit_code, 0) << result.output << result.error;
  EXPECT_TRUE(contains(
      result.error, std::string(TwoHosts::kSecond) + " does not answer any more: the run goes on without\n"))
      << result.error;
  EXPECT_TRUE(contains(result.error,
                       "restart 1 of 1 with 1 rank goes on from " + (path("left") / "checkpoint-").string()))
      << result.error;
  EXPECT_TRUE(contains(result.output, "Effective batch 16 = 8 a device x 2 accumulation steps;"))
      << result.output;
  EXPECT_EQ(read_json(path("left") / "trainer_state.json").at("global_step"), 1000);
}

// The rank of the second host is killed at any instant between the start of its process and the end of the run, again and again, each
// run going on from what the one before left: at the end the weights are those of a run that was never killed.
TEST_F(SeveralHosts, GoOnAfterKillsAtRandomInstants) {
  const std::vector<std::string> steps = {"--max_steps",        "600", "--save_steps",    "25",
                                          "--save_total_limit", "2",   "--logging_steps", "200"};
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  const auto start = Clock::now();
  ASSERT_EQ(start_on_hosts("never-killed", steps).wait().exit_code, 0);
  std::mt19937_64 random(13);
  std::uniform_real_distribution<double> delay(0, seconds_since(start));
  const auto whole_checkpoint = [&] {
    const LatestCheckpoint latest = latest_checkpoint(path("killed"));
    EXPECT_EQ(latest.path ? checkpoint_defect(*latest.path, VerifiedFiles::kAll) : "", "");
    return latest;
  };
  int finished = 0, resumed = 0;
  const auto start_again = [&] {
    std::vector<std::string> words = steps;
    if (whole_checkpoint().path) {
      words.emplace_back("--resume_from_checkpoint");
      ++resumed;
    }
    return start_on_hosts("killed", words);
  };
  const auto expect_result = [&] {
    EXPECT_TRUE(read_text_file(path("killed") / "model.safetensors") ==
                read_text_file(path("never-killed") / "model.safetensors"));
  };
  // At least one is to hit a run that has something to lose.
  constexpr int kMostToHitOne = 20;
  const int least = environment_count("SHOEHORN_HOST_KILLS", 2);
  for (int kills = 0; kills < (resumed > 0 ? least : kMostToHitOne) && !HasFailure();) {
    StartedProgram program = start_again();
    std::this_thread::sleep_for(std::chrono::duration<double>(delay(random)));
    bool was_hit = false;
    do {
      was_hit = hosts_->signal_second(SHOEHORN_PROGRAM, SIGKILL);
    } while (!was_hit && is_process_running(program.pid()));
    const auto hit = Clock::now();
    while (was_hit && hosts_->runs_program(SHOEHORN_PROGRAM) && seconds_since(hit) < kNoHangSeconds)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_TRUE(!was_hit || seconds_since(hit) < kMostSecondsOfAnEnd) << seconds_since(hit);
    const ProgramRun result = program.wait();
    whole_checkpoint();
    if (result.exit_code == 0) {
      expect_result();
      fs::remove_all(path("killed"));
      ++finished;
    } else {
      EXPECT_TRUE(was_hit) << result.output << result.error;
      ++kills;
    }
  }
  const ProgramRun last = start_again().wait();
  ASSERT_EQ(last.exit_code, 0) << last.output << last.error;
  expect_result();
  EXPECT_GT(resumed, 0);
  RecordProperty("finished_between", finished);
}

// What happens to a run, and what its error says then.
struct Disturbance {
  std::string name;
  std::function<void(const TwoHosts&)> happen;
  std::string error;
  double noticed_behind = 0;  // so many seconds
};

// All ranks end on both hosts in time, the error names a rank and its host, and the run goes on from its last checkpoint, which
// is whole, to the result of a run that nobody disturbed.
TEST_F(SeveralHosts, EndInTimeAndGoOn) {
  const std::vector<Disturbance> disturbances = {
      {"cut", [](const TwoHosts& hosts) { hosts.cut_link(); }, "[ddp_timeout] expected rank ",
       kTimeoutSeconds},
      {"stopped", [](const TwoHosts& hosts) { hosts.signal_second(SHOEHORN_PROGRAM, SIGSTOP); },
       "[ddp_timeout] expected rank 1 on shoe-b", kTimeoutSeconds},
      {"killed", [](const TwoHosts& hosts) { hosts.signal_second(SHOEHORN_PROGRAM, SIGKILL); },
       // As mpirun says: no rank of that host is left.
       (is_of_mpich() ? "RUNNING AT " : "on node ") + std::string(TwoHosts::kSecond)}};
  const std::vector<std::string> steps = {"--max_steps",        "1200",
                                          "--save_steps",       "200",
                                          "--save_total_limit", "2",
                                          "--logging_steps",    "200",
                                          "--ddp_timeout",      fmt::format("{}", kTimeoutSeconds)};
  const auto on_one_host = [&](const std::string& output, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"launch", "--nproc_per_node", "2"};
    for (const std::string& word : train(output, steps)) words.push_back(word);
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  ASSERT_EQ(on_one_host("undisturbed", {}).exit_code, 0);
  for (const Disturbance& disturbance : disturbances) {
    SCOPED_TRACE(disturbance.name);
    hosts_.reset();  // of the last one, whose link is cut
    hosts_ = std::make_unique<TwoHosts>(path("of-hosts"));
    StartedProgram program = start_on_hosts(disturbance.name, steps);
    for (int i = 0; i < 2400 && program.output().find("step 400 ") == std::string::npos; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_NE(program.output().find("step 400 "), std::string::npos);
    const auto begin = std::chrono::steady_clock::now();
    const auto seconds = [begin] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    disturbance.happen(*hosts_);
    while (hosts_->runs_program(SHOEHORN_PROGRAM) && seconds() < kNoHangSeconds)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_LT(seconds(), disturbance.noticed_behind + kMostSecondsOfAnEnd);
    const ProgramRun result = program.wait();
    EXPECT_LT(seconds(), kNoHangSeconds);
    EXPECT_NE(result.exit_code, 0);
    const std::string said = result.output + result.error;
    EXPECT_TRUE(contains(said, disturbance.error)) << said;
    EXPECT_TRUE(contains(said, " on shoe-") || contains(said, TwoHosts::kSecond)) << said;
    const LatestCheckpoint latest = latest_checkpoint(path(disturbance.name));
    ASSERT_TRUE(latest.path);
    EXPECT_LT(latest.step, 1200);
    EXPECT_EQ(checkpoint_defect(*latest.path, VerifiedFiles::kAll), "");
    EXPECT_EQ(on_one_host(disturbance.name, {"--resume_from_checkpoint", latest.path->string()}).exit_code,
              0);
    EXPECT_TRUE(read_text_file(path(disturbance.name) / "model.safetensors") ==
                read_text_file(path("undisturbed") / "model.safetensors"));
  }
}

}  // namespace
}  // namespace shoehorn
