// `shoehorn topo`: hosts and the links between ranks; and what plan makes of these.
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "base/processors.h"
#include "beside_program.h"
#include "cli_support.h"
#include "io/file.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

// A made-up machine in hwloc's form: two sockets with two processors each, at the first a switch with a GPU and a network card,
// and a second GPU beside it; at the other a GPU; and the screen of a board, which is none. Two NVLinks join the first two GPUs, one
// the first and the third.
constexpr const char* kMadeUpMachine =
    R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
 <object type="Machine" os_index="0" cpuset="0x0000000f" complete_cpuset="0x0000000f" allowed_cpuset="0x0000000f" nodeset="0x00000003" complete_nodeset="0x00000003" allowed_nodeset="0x00000003" gp_index="1">
  <object type="Package" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000003" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="2">
   <info name="CPUModel" value="Made Up 1"/>
   <object type="NUMANode" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000003" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="3" local_memory="1073741824"/>
   <object type="L3Cache" cpuset="0x00000003" complete_cpuset="0x00000003" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="4" cache_size="4194304" depth="3" cache_linesize="64" cache_associativity="16" cache_type="0">
    <object type="Core" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="5">
     <object type="PU" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="6"/>
    </object>
    <object type="Core" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="7">
     <object type="PU" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="8"/>
    </object>
   </object>
   <object type="Bridge" gp_index="20" bridge_type="0-1" depth="0" bridge_pci="0000:[00-0f]">
    <object type="Bridge" gp_index="21" bridge_type="1-1" depth="1" bridge_pci="0000:[01-05]" pci_busid="0000:00:01.0" pci_type="0604 [8086:0001] [0000:0000] 00" pci_link_speed="0.000000">
     <object type="Bridge" gp_index="22" bridge_type="1-1" depth="2" bridge_pci="0000:[02-02]" pci_busid="0000:01:00.0" pci_type="0604 [8086:0001] [0000:0000] 00" pci_link_speed="0.000000">
      <object type="PCIDev" gp_index="23" pci_busid="0000:02:00.0" pci_type="0302 [10de:20b0] [10de:20b0] a1" pci_link_speed="31.5">
       <object type="OSDev" gp_index="24" name="cuda0" subtype="CUDA" osdev_type="5"/>
      </object>
     </object>
     <object type="Bridge" gp_index="25" bridge_type="1-1" depth="2" bridge_pci="0000:[03-03]" pci_busid="0000:01:01.0" pci_type="0604 [8086:0001] [0000:0000] 00" pci_link_speed="0.000000">
      <object type="PCIDev" gp_index="26" pci_busid="0000:03:00.0" pci_type="0200 [15b3:1017] [15b3:0001] 00" pci_link_speed="15.75">
       <object type="OSDev" gp_index="27" name="eth0" osdev_type="2"/>
      </object>
     </object>
    </object>
    <object type="PCIDev" gp_index="28" pci_busid="0000:00:02.0" pci_type="0302 [10de:20b0] [10de:20b0] a1" pci_link_speed="31.5">
     <object type="OSDev" gp_index="30" name="cuda1" subtype="CUDA" osdev_type="5"/>
    </object>
    <object type="PCIDev" gp_index="29" pci_busid="0000:00:03.0" pci_type="0300 [1a03:2000] [1a03:2000] 41" pci_link_speed="0.000000"/>
   </object>
  </object>
  <object type="Package" os_index="1" cpuset="0x0000000c" complete_cpuset="0x0000000c" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="40">
   <object type="NUMANode" os_index="1" cpuset="0x0000000c" complete_cpuset="0x0000000c" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="41" local_memory="1073741824"/>
   <object type="Core" os_index="0" cpuset="0x00000004" complete_cpuset="0x00000004" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="42">
    <object type="PU" os_index="2" cpuset="0x00000004" complete_cpuset="0x00000004" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="43"/>
   </object>
   <object type="Core" os_index="1" cpuset="0x00000008" complete_cpuset="0x00000008" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="44">
    <object type="PU" os_index="3" cpuset="0x00000008" complete_cpuset="0x00000008" nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="45"/>
   </object>
   <object type="Bridge" gp_index="50" bridge_type="0-1" depth="0" bridge_pci="0000:[80-8f]">
    <object type="PCIDev" gp_index="51" pci_busid="0000:80:01.0" pci_type="0302 [10de:20b0] [10de:20b0] a1" pci_link_speed="31.5">
     <object type="OSDev" gp_index="52" name="cuda2" subtype="CUDA" osdev_type="5"/>
    </object>
   </object>
  </object>
 </object>
)"
    R"( <distances2 type="OSDev" nbobjs="3" kind="9" name="NVLinkBandwidth" indexing="gp">
  <indexes length="9">24 30 52 </indexes>
  <u64values length="52">1000000 50000 25000 50000 1000000 0 25000 0 1000000 </u64values>
 </distances2>
</topology>
)";

class CliTopo : public CliTest {
 protected:
  CliTopo() { setenv("XDG_CACHE_HOME", path("cache").c_str(), 1); }
  ~CliTopo() override {
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HWLOC_XMLFILE");
  }

  // What plan says of ranks that are not there.
  nlohmann::json plan(std::vector<std::string> more) const {
    std::vector<std::string> words = {"plan",  "--model_name_or_path", model(), "--max_seq_length", "32",
                                      "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const ProgramRun result = run(words);
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return nlohmann::json::parse(result.output);
  }
};

TEST_F(CliTopo, SaysWhatToInstallWithoutHwloc) {
  if (has_hwloc()) GTEST_SKIP() << "hwloc is here";
  expect_failure({"topo"}, 2,
                 {"[topo] expected libshoehorn_hwloc.so", "install libhwloc-dev and build again"});
}

TEST_F(CliTopo, ShowsAMachineAsNvidiaSmiDoes) {
  if (!has_hwloc()) GTEST_SKIP() << kNoHwloc;
  write_text_atomic(path("machine.xml"), kMadeUpMachine);
  setenv("HWLOC_XMLFILE", path("machine.xml").c_str(), 1);
  const ProgramRun shown = run({"topo", "--json_file", path("topo.json").string()});
  ASSERT_EQ(shown.exit_code, 0) << shown.error;
  for (const char* line : {"         cuda0  eth0  cuda1  cuda2  CPU Affinity  NUMA Affinity  bus",
                           "  cuda0  X      PIX   NV2    NV1    0-1           0              0000:02:00.0",
                           "  eth0   PIX    X     PHB    SYS    0-1           0              0000:03:00.0",
                           "  cuda2  NV1    SYS   SYS    X      2-3           1              0000:80:01.0",
                           "2 cores, processors 0-1, Made Up 1", "1 x 4.00 MiB, each of 2 processors",
                           "NVLinks are seen where hwloc has NVML"})
    EXPECT_TRUE(contains(shown.output, line)) << line << " in\n" << shown.output;
  const nlohmann::json host = read_json(path("topo.json")).at("hosts").at(0);
  EXPECT_EQ(host.at("numa_nodes").size(), 2U);
  EXPECT_EQ(host.at("devices").size(), 4U) << "the board's screen is no GPU";
}

TEST_F(CliTopo, ShowsThisMachine) {
  if (!has_hwloc()) GTEST_SKIP() << kNoHwloc;
  const ProgramRun shown = run({"topo", "--json"});
  ASSERT_EQ(shown.exit_code, 0) << shown.error;
  const nlohmann::json topology = nlohmann::json::parse(shown.output);
  EXPECT_EQ(topology.at("ranks").size(), 0U);
  EXPECT_GE(topology.at("hosts").at(0).at("numa_nodes").size(), 1U);
  EXPECT_FALSE(topology.contains("links"));
}

// Ranks are measured, and plans of this host know their link from then on, until the user says another.
TEST_F(CliTopo, RanksAreMeasuredForPlan) {
  if (!has_hwloc() || !has_mpi())
    GTEST_SKIP() << "no hwloc or no MPI: libhwloc-dev, libopenmpi-dev and openmpi-bin";
  const ProgramRun before = run({"plan", "--model_name_or_path", model(), "--world_size", "2"});
  EXPECT_TRUE(contains(before.output, "The link between ranks is not known: nobody measured it"))
      << before.output;
  const ProgramRun shown =
      run({"launch", "--nproc_per_node", "2", "topo", "--json_file", path("topo.json").string()});
  ASSERT_EQ(shown.exit_code, 0) << shown.output << shown.error;
  EXPECT_TRUE(contains(shown.output, "All-reduce over 2 ranks on ")) << shown.output;
  const nlohmann::json topology = read_json(path("topo.json"));
  EXPECT_EQ(topology.at("hosts").size(), 1U);
  EXPECT_EQ(topology.at("ranks").size(), 2U);
  const nlohmann::json link = topology.at("links").at("link");
  const nlohmann::json planned = plan({"--world_size", "2"});
  double messages = 0, bytes = 0;
  for (const auto& [name, traffic] : planned.at("sent_in_step").items()) {
    messages += traffic.at("messages").get<double>();
    bytes += traffic.at("bytes").get<double>();
  }
  EXPECT_EQ(bytes, planned.at("sent_bytes_in_step").get<double>());
  const double seconds =
      messages * link.at("latency_seconds").get<double>() + bytes / link.at("bytes_per_second").get<double>();
  EXPECT_NEAR(planned.at("message_seconds").get<double>(), seconds, 1e-6 * seconds);
  const ProgramRun after = run({"plan", "--model_name_or_path", model(), "--world_size", "2"});
  EXPECT_TRUE(contains(after.output, "Messages by the link measured between 2 ranks on ")) << after.output;
  EXPECT_FALSE(plan({}).contains("message_seconds")) << "one rank has no link";
  // Over a link that is given, copies are those of this host, of ranks that leave it no processor.
  const auto counts_copies = [&](const std::string& threads) {
    const ProgramRun slow = run({"plan", "--model_name_or_path", model(), "--world_size", "2",
                                 "--num_threads", threads, "--link_bandwidth", "1"});
    return contains(slow.output, "ranks have all processors, and copies take ");
  };
  const int64_t usable = processors().usable();
  EXPECT_TRUE(counts_copies(std::to_string((usable + 1) / 2)));
  EXPECT_EQ(counts_copies("1"), usable <= 2);
  // So does a search for ranks whose launcher makes the link so slow.
  setenv("SHOEHORN_LINK", "0.001 125000000", 1);
  const nlohmann::json launched = plan({"--world_size", "2"});
  unsetenv("SHOEHORN_LINK");
  EXPECT_EQ(
      launched.at("message_seconds"),
      plan({"--world_size", "2", "--link_bandwidth", "1", "--link_latency", "1000"}).at("message_seconds"));
}

// A link that is given needs nobody to have measured it: at 1 Gbit/s a byte takes 8 ns.
TEST_F(CliTopo, PlanTakesALinkThatIsGiven) {
  const nlohmann::json slow = plan({"--world_size", "2", "--link_bandwidth", "1"});
  EXPECT_NEAR(slow.at("message_seconds").get<double>(), 8e-9 * slow.at("sent_bytes_in_step").get<double>(),
              1e-9);
  const nlohmann::json late = plan(
      {"--world_size", "2", "--link_bandwidth", "1", "--link_latency", "1000", "--machine_profile", "a100"});
  EXPECT_GT(late.at("message_seconds").get<double>(), slow.at("message_seconds").get<double>() + 0.001);
  const nlohmann::json times = late.at("messages");
  EXPECT_NEAR(times.at("seconds").get<double>(), late.at("message_seconds").get<double>(), 1e-9);
  EXPECT_LE(late.at("step_seconds").get<double>(),
            times.at("step_seconds_without_overlap").get<double>() * (1 + 1e-9));
  EXPECT_EQ(times.at("link").at("source"), "--link_bandwidth");
  EXPECT_TRUE(plan({"--world_size", "2", "--machine_profile", "l4"}).at("messages").is_null());
}

TEST_F(CliTopo, ExplainComparesTheWaysToShareAStep) {
  const nlohmann::json methods =
      plan({"--world_size", "4", "--explain", "--zero_persistence_threshold", "0"}).at("methods");
  ASSERT_EQ(methods.size(), 4U);
  EXPECT_EQ(methods[0].at("name"), "ddp");
  for (const std::string stage : {"1", "2", "3"}) {
    const nlohmann::json planned =
        plan({"--world_size", "4", "--zero_stage", stage, "--zero_persistence_threshold", "0"});
    const nlohmann::json& method = methods[std::stoul(stage)];
    EXPECT_EQ(method.at("arena_bytes"), planned.at("arena_bytes")) << stage;
    EXPECT_EQ(method.at("sent_bytes_in_step"), planned.at("sent_bytes_in_step")) << stage;
  }
  EXPECT_FALSE(plan({"--explain"}).contains("methods"));
}

// NVLink's figure is of both ways: a message within a host goes at half of it, and takes nothing besides.
TEST_F(CliTopo, ACardOfTheCatalogueHasItsLink) {
  const std::vector<std::string> on_cards = {"--world_size", "2", "--machine_profile", "h100"};
  const nlohmann::json planned = plan(on_cards);
  const nlohmann::json link = planned.at("messages").at("link");
  EXPECT_EQ(link.at("bytes_per_second"), 450e9);
  EXPECT_EQ(link.at("latency_seconds"), 0);
  EXPECT_TRUE(contains(link.at("source").get<std::string>(), "half of 900 GB/s, which count both ways"));
  EXPECT_EQ(planned.at("budget_ranks"), 1) << "a card's memory is its own";
  std::vector<std::string> words = {"plan", "--model_name_or_path", model(), "--ranks_per_host", "1"};
  words.insert(words.end(), on_cards.begin(), on_cards.end());
  const ProgramRun apart = run(words);
  EXPECT_TRUE(contains(apart.output, "The link between hosts of another machine is not known"))
      << apart.output;
  const nlohmann::json given = plan({"--world_size", "4", "--machine_profile", "h100", "--ranks_per_host",
                                     "2", "--link_bandwidth", "100"})
                                   .at("messages")
                                   .at("link");
  EXPECT_EQ(given.at("bytes_per_second"), 450e9);
  EXPECT_EQ(given.at("between_hosts").at("bytes_per_second"), 12.5e9);
}

// Two ranks of four leave their host, with all that they send; who shares within a host sends little between them.
TEST_F(CliTopo, PlanTellsWhatGoesBetweenHosts) {
  const auto on_hosts = [&](const std::string& ranks_per_host, const std::string& group_size) {
    return plan({"--world_size", "4", "--zero_stage", "3", "--zero_persistence_threshold", "0",
                 "--ranks_per_host", ranks_per_host, "--zero_group_size", group_size, "--link_bandwidth",
                 "1"});
  };
  const nlohmann::json all = on_hosts("2", "4"), hybrid = on_hosts("2", "0"), one_host = on_hosts("8", "4");
  const auto bytes = [](const nlohmann::json& planned, const char* link) {
    return planned.at("sent_by_link").at(link).get<double>();
  };
  EXPECT_EQ(all.at("sent_by_link").at("rank"), 1);
  EXPECT_EQ(bytes(all, "within_host_bytes"), 0);
  EXPECT_NEAR(bytes(all, "between_hosts_bytes"), all.at("sent_bytes_in_step").get<double>(),
              0.02 * bytes(all, "between_hosts_bytes"));
  EXPECT_EQ(hybrid.at("sent_in_step").at("all_gather").at("between_hosts_bytes"), 0);
  EXPECT_LT(bytes(hybrid, "between_hosts_bytes"), bytes(all, "between_hosts_bytes") / 3);
  EXPECT_GT(bytes(hybrid, "within_host_bytes"), bytes(hybrid, "between_hosts_bytes"));
  EXPECT_EQ(bytes(one_host, "between_hosts_bytes"), 0);
  EXPECT_EQ(one_host.at("sent_by_link").at("ranks_per_host"), 4);
  EXPECT_EQ(one_host.at("budget_ranks"), 4);
  EXPECT_EQ(all.at("budget_ranks"), 2);
  EXPECT_GT(hybrid.at("message_seconds"), 0);
}

// That one host is taken to have all is said, and what a host has where it is given.
TEST_F(CliTopo, PlanSaysWhoIsOnWhichHost) {
  const auto text = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"plan", "--model_name_or_path", model(), "--max_seq_length", "32"});
    const ProgramRun planned = run(more);
    EXPECT_EQ(planned.exit_code, 0) << planned.error;
    return planned.output;
  };
  const std::string assumed = text({"--world_size", "2"});
  EXPECT_TRUE(contains(assumed,
                       "One host is taken to have all 2 ranks, of whose memory each has its share; "
                       "--ranks_per_host says how many a host has"))
      << assumed;
  EXPECT_TRUE(contains(assumed, ", the share of one of 2 ranks on a host (fits)"));
  EXPECT_FALSE(contains(assumed, "between hosts"));
  const std::string given = text({"--world_size", "2", "--ranks_per_host", "1", "--link_bandwidth", "1"});
  EXPECT_TRUE(contains(given, "A host has 1 rank, of whose memory each has its share\n")) << given;
  EXPECT_TRUE(contains(given, "by link, of rank 0: none sends more between hosts of 1 rank\n"));
  EXPECT_TRUE(contains(given, "Messages between hosts by the link that --link_bandwidth says"));
  EXPECT_TRUE(contains(given, "no other is known within a host"));
  EXPECT_TRUE(contains(text({"--world_size", "4096"}), "but of its memory each has all"));
  EXPECT_FALSE(contains(text({}), "host has")) << "one rank is where it is";
}

// A rank of the anatomy is that of the plan; nothing is run.
TEST_F(CliTopo, AnAnatomyOfRanksIsPlanned) {
  std::vector<std::string> words = {"anatomy", "--model_name_or_path", model(), "--sequence_length",
                                    "32",      "--world_size",         "4",     "--json"};
  const ProgramRun measured = run(words);
  EXPECT_EQ(measured.exit_code, 2);
  EXPECT_TRUE(contains(measured.error, "[--world_size 4] expected --no_measure")) << measured.error;
  words.insert(words.end(), {"--no_measure", "--no_limits"});
  const ProgramRun planned = run(words);
  ASSERT_EQ(planned.exit_code, 0) << planned.error;
  const nlohmann::json anatomy = nlohmann::json::parse(planned.output);
  EXPECT_EQ(anatomy.at("sent_in_step"), plan({"--world_size", "4"}).at("sent_in_step"));
  EXPECT_EQ(anatomy.at("sent_by_link"), plan({"--world_size", "4"}).at("sent_by_link"));
  EXPECT_TRUE(contains(planned.output, "messages between ranks")) << planned.output;
  words.insert(words.end(), {"--ranks_per_host", "2", "--report", path("anatomy.html").string()});
  EXPECT_EQ(run(words).exit_code, 0);
  EXPECT_TRUE(contains(read_text_file(path("anatomy.html")), "rank 1 between hosts"));
}

// The times of fit have the messages of its ranks in them: over a slow link a step takes at least as long as these.
TEST_F(CliTopo, FitCountsMessages) {
  const std::vector<std::string> words = {"fit", "--model_name_or_path", model(), "--max_seq_length",
                                          "32",  "--world_size",         "4",     "--json"};
  const auto seconds = [&](std::vector<std::string> more) {
    more.insert(more.begin(), words.begin(), words.end());
    const ProgramRun found = run(more);
    EXPECT_EQ(found.exit_code, 0) << found.error;
    return nlohmann::json::parse(found.output).at("chosen").at("step_seconds").get<double>();
  };
  const double sent = plan({"--world_size", "4"}).at("sent_bytes_in_step").get<double>();
  EXPECT_GE(seconds({"--link_bandwidth", "0.001"}), 0.999 * sent * 8e-6);
  EXPECT_LT(seconds({}), sent * 8e-6);
  std::vector<std::string> on_hosts = words;
  on_hosts.insert(on_hosts.end(), {"--ranks_per_host", "2", "--link_bandwidth", "0.001"});
  const ProgramRun found = run(on_hosts);
  ASSERT_EQ(found.exit_code, 0) << found.error;
  EXPECT_TRUE(contains(found.error, "A host has 2 ranks, of whose memory each has its share")) << found.error;
  const nlohmann::json chosen = nlohmann::json::parse(found.output).at("chosen");
  EXPECT_EQ(chosen.at("sent_by_link").at("ranks_per_host"), 2);
  std::vector<std::string> on_one_host = words;
  on_one_host.insert(on_one_host.end(), {"--ranks_per_host", "4"});
  const nlohmann::json of_four = nlohmann::json::parse(run(on_one_host).output);
  EXPECT_LT(of_four.at("budget_bytes").get<double>(),
            0.75 * nlohmann::json::parse(found.output).at("budget_bytes").get<double>())
      << "a rank has its share of the host";
  EXPECT_GT(chosen.at("sent_by_link").at("between_hosts_bytes"), 0);
  EXPECT_LE(chosen.at("step_seconds").get<double>(),
            chosen.at("messages").at("step_seconds_without_overlap").get<double>() * (1 + 1e-9));
  const std::vector<std::string> verified = {
      "fit", "--model_name_or_path", model(), "--world_size", "4", "--verify", "1"};
  expect_failure(joined(verified, {"--ranks_per_host", "2"}), 2,
                 {"[--verify] expected ranks of this host, got 4 of 2 a host (--ranks_per_host)"});
  if (processors().usable() < 8) {
    expect_failure(
        joined(verified, {"--num_threads", "2"}), 2,
        {"[--verify] expected ranks for which this host has processors, got 4 ranks with 2 threads each"});
  }
}

// 70 billion parameters on a thousand ranks: a plan needs no memory of theirs. How fast is for bench/ to say.
TEST_F(CliTopo, PlansALargeModelOnAThousandRanks) {
  const ProgramRun result =
      run({"plan", "--model_name_or_path", "llama-70b", "--world_size", "1024", "--zero_stage", "3", "--bf16",
           "--per_device_train_batch_size", "1", "--max_seq_length", "2048", "--json", "--memory_budget",
           "64GiB", "--link_bandwidth", "200"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const nlohmann::json planned = nlohmann::json::parse(result.output);
  EXPECT_GT(planned.at("parameters").get<int64_t>(), int64_t{68'000'000'000});
  // A thousandth of them all.
  EXPECT_LT(planned.at("by_role").at("optimizer_state").get<int64_t>(), int64_t{1} << 30);
  EXPECT_GT(planned.at("message_seconds").get<double>(), 0);
}

TEST_F(CliTopo, LinksThatAreNoneAreRefused) {
  const auto words = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"plan", "--model_name_or_path", model(), "--world_size", "2"});
    return more;
  };
  expect_failure(words({"--link_bandwidth", "0"}), 2, {"[--link_bandwidth] expected more than 0"});
  expect_failure(words({"--link_latency", "10"}), 2, {"[--link_latency] expected", "--link_bandwidth"});
  expect_failure(words({"--link_bandwidth", "1", "--link_latency", "-1"}), 2, {"[--link_latency] expected"});
  expect_failure({"launch", "--max_restarts", "2", "topo"}, 2, {"[--max_restarts] expected train"});
}

}  // namespace
}  // namespace shoehorn
