// Rows of the table: runs of several ranks.
#include "arguments/argument_table_rows.h"

namespace shoehorn::argument_rows {

std::vector<ArgumentSpec> ranks() {
  return {
      {.name = "world_size",
       .group = kDistributed,
       .read_by =
           kReadByTrain | kReadByEval | kReadByPredict | kReadByPlan | kReadByAnatomy | kReadByBenchStep,
       .field = &Args::world_size,
       .resume = kSamples,
       .help =
           "ranks that share each step, data parallel; a run gets them from `shoehorn launch` or mpirun, and checks "
           "this number",
       .help_elsewhere =
           {{kReadByEval | kReadByPredict,
             "ranks that share the batches; a run gets them from `shoehorn launch` or mpirun, and checks this "
             "number"},
            {kReadByPlan | kReadByAnatomy,
             "ranks that share each step, data parallel; what is planned is one of so many"}}},
      {.name = "ddp_bucket_cap_mb",
       .group = kDistributed,
       .read_by = kReadByTrain | kReadByPlan | kReadByAnatomy | kReadByBenchStep,
       .field = &Args::ddp_bucket_cap_mb,
       .resume = kFree,
       .help = "MiB of gradients that go around between ranks together; 25 unless given"},
      {.name = "log_level_replica",
       .group = kDistributed,
       .read_by = kReadByTrain | kReadByEval | kReadByPredict | kReadByBenchStep,
       .field = &Args::log_level_replica,
       .resume = kIrrelevant,
       .help =
           "as log_level, of ranks other than the first: with debug or info they show notices and forecasts too, with their rank",
       .choices = {{"passive"}, {"debug"}, {"info"}, {"warning"}, {"error"}, {"critical"}}},
      {.name = "ddp_timeout",
       .group = kDistributed,
       .read_by = kReadByTrain | kReadByEval | kReadByPredict | kReadByBenchStep,
       .field = &Args::ddp_timeout,
       .resume = kIrrelevant,
       .help = "seconds that a rank waits for the others before the run fails"},
      {.name = "enable_cpu_affinity",
       .group = kDistributed,
       .read_by = kReadByTrain | kReadByEval | kReadByPredict | kReadByBenchStep,
       .field = &Args::enable_cpu_affinity,
       .resume = kIrrelevant,
       .help =
           "each rank is bound to processors of its own that are near each other (by hwloc), where there are enough and "
           "no launcher has bound it"},
      {.name = "parallel_mode",
       .group = kDistributed,
       .read_by = kReadByTrain | kReadByPlan | kReadByAnatomy | kReadByBenchStep,
       .field = &Args::parallel_mode,
       .resume = kFree,
       .help =
           "ddp: each rank updates its own weights; dp: DataParallel, in which the first rank updates and sends weights and "
           "samples to the others in each step, to compare them",
       .choices = {{"ddp"}, {"dp"}}},
      {.name = "zero_stage",
       .group = kDistributed,
       .read_by = kReadByTrain | kReadByPlan | kReadByAnatomy | kReadByBenchStep,
       .field = &Args::zero_stage,
       .resume = kFree,
       .help =
           "what ranks share instead of each having it whole: 1 optimizer states, 2 gradients too, 3 weights too"},
      {.name = "zero_prefetch_layers",
       .group = kDistributed,
       .read_by = kReadByTrain | kReadByPlan | kReadByAnatomy | kReadByBenchStep,
       .field = &Args::zero_prefetch_layers,
       .resume = kFree,
       .help =
           "zero_stage 3: how many layers ahead weights are gathered; each is one more layer in memory; unless given 1, none "
           "where that does not fit, or more where they are predicted to save time"},
      {.name = "zero_persistence_threshold",
       .group = kDistributed,
       .read_by = kReadByTrain | kReadByPlan | kReadByAnatomy | kReadByBenchStep,
       .field = &Args::zero_persistence_threshold,
       .resume = kFree,
       .help =
           "zero_stage 3: weights of at most so many elements stay whole on each rank; unless given 100,000, 0 where that does "
           "not fit, or 1,000,000 where that is predicted to save time"},
      {.name = "local_sgd_steps",
       .group = kDistributed,
       .read_by = kReadByTrain | kReadByPlan | kReadByAnatomy | kReadByBenchStep,
       .field = &Args::local_sgd_steps,
       .resume = kState,
       .help =
           "ranks train alone for so many steps, each with an optimizer of its own, and then average their weights, "
           "for slow links; 0: they sum gradients in every step. It is another algorithm (local SGD; with "
           "--outer_momentum DiLoCo)"},
      {.name = "outer_learning_rate",
       .group = kDistributed,
       .read_by = kReadByTrain | kReadByPlan | kReadByAnatomy | kReadByBenchStep,
       .field = &Args::outer_learning_rate,
       .resume = kNumerics,
       .help =
           "local_sgd_steps: how far weights go towards their average; 1 is the average, DiLoCo takes 0.7"},
      {.name = "outer_momentum",
       .group = kDistributed,
       .read_by = kReadByTrain | kReadByPlan | kReadByAnatomy | kReadByBenchStep,
       .field = &Args::outer_momentum,
       .resume = kNumerics,
       .help = "local_sgd_steps: Nesterov's momentum over averages; DiLoCo takes 0.9"},
      {.name = "zero_group_size",
       .group = kDistributed,
       .read_by = kReadByTrain | kReadByPlan | kReadByAnatomy | kReadByBenchStep,
       .field = &Args::zero_group_size,
       .resume = kFree,
       .help =
           "so many ranks in a row share by --zero_stage, and gradients are summed over these groups; 0: the ranks of a host "
           "(of a plan --ranks_per_host); all ranks unless given"},
      {.name = "ranks_per_host",
       .group = kDistributed,
       .read_by = kReadByTrain | kReadByPlan | kReadByAnatomy | kReadByBenchStep,
       .field = &Args::ranks_per_host,
       .resume = kIrrelevant,
       .help = "ranks in a row that each host has; a run finds it, and checks this number",
       .help_elsewhere =
           {{kReadByPlan | kReadByAnatomy,
             "ranks in a row that each host has, and that share its memory; one host has all unless given"}}},
      {.name = "deepspeed",
       .group = kDistributed,
       .read_by = kReadByTrain | kReadByPlan | kReadByBench,
       .field = &Args::deepspeed,
       .resume = kIrrelevant,
       .value = "FILE",
       .help =
           "a DeepSpeed configuration, a file or its JSON: batch, precision, optimizer, schedule and stage become "
           "arguments; \"auto\" leaves a key to the flags",
       .takes_json = true},
      {.name = "fsdp",
       .group = kDistributed,
       .read_by = kReadByTrain | kReadByPlan | kReadByBench,
       .field = &Args::fsdp,
       .resume = kIrrelevant,
       .value = "WORDS",
       .help =
           "FSDP's names of --zero_stage: full_shard or true is 3, shard_grad_op 2, no_shard 0; hybrid_shard is 3 within a host",
       .true_text = "true",
       .false_text = ""},
      {.name = "fsdp_config",
       .group = kDistributed,
       .read_by = kReadByTrain | kReadByPlan | kReadByBench,
       .field = &Args::fsdp_config,
       .resume = kIrrelevant,
       .value = "FILE",
       .help = "of --fsdp, a file or its JSON: reshard_after_forward false is --zero_stage 2",
       .takes_json = true},
  };
}

}  // namespace shoehorn::argument_rows
