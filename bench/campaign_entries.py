"""The measurements behind the figures of the docs, as data. `campaign.py --list` prints them.

An entry's name is the name of its record. Its command is written as a reader would type it in the root of the checkout;
the word `python` stands for the Python that bench/peers/setup.sh makes.
"""

import dataclasses
import shlex

LADDER_OF_THE_GUIDES = (
    "batch_4", "accumulation", "checkpointing", "fp16", "fp16_checkpointing", "adafactor", "fp16_checkpointing_adafactor",
    "8bit_embeddings", "fp16_checkpointing_8bit_embeddings",
)  # fmt: skip
LADDER_BESIDE = (
    "8bit", "fp16_checkpointing_8bit", "bf16", "bf16_compile", "bf16_checkpointing", "bf16_checkpointing_adafactor",
    "bf16_checkpointing_8bit", "bf16_checkpointing_8bit_embeddings",
)  # fmt: skip
LOWEST = (
    "exact", "exact_bf16", "exact_bf16_adafactor", "exact_bf16_8bit", "exact_bf16_8bit_embeddings",
    "exact_bf16_8bit_no_master", "exact_bf16_8bit_embeddings_no_master",
)  # fmt: skip
# Name -> flags of a plan of BERT-large at 4 x 512.
PLANS = {
    "full": "",
    "lora": "--lora_rank 8",
    "lora_all_linear": "--lora_rank 8 --lora_target all-linear",
    "full_checkpointing": "--gradient_checkpointing",
    "lora_checkpointing": "--lora_rank 8 --gradient_checkpointing",
    "full_bf16": "--bf16",
    "lora_bf16": "--lora_rank 8 --bf16",
    "lora_bf16_checkpointing": "--lora_rank 8 --bf16 --gradient_checkpointing",
    "lion": "--optim lion_32bit",
    "adafactor": "--optim adafactor",
    "sgd": "--optim sgd",
}
# Full fine-tuning in the fewest bytes: no masters, no clipping, updates in the backward, 8-bit states, of embeddings too.
FEWEST_BYTES = (
    "--per_device_train_batch_size 1 --bf16 --master_weights none --max_grad_norm 0 --update_in_backward "
    "--optim adamw_8bit --optim_args embedding_bits=8"
)
# Name -> model and flags of a decoder's run at 1 x 512.
PEAKS = {
    "qwen2_0_5b": "qwen2-0.5b",
    "qwen2_0_5b_checkpointing": "qwen2-0.5b --gradient_checkpointing",
    "llama_1b": "llama-1b",
    "llama_1b_checkpointing": "llama-1b --gradient_checkpointing",
}
DECODER_PLANS = {
    "gpt2": "--model gpt2 --max_seq_length 512 --per_device_train_batch_size 4",
    "llama_135m": "--model llama-135m --max_seq_length 512 --per_device_train_batch_size 4",
    "qwen2_0_5b": "--model qwen2-0.5b --max_seq_length 512 --per_device_train_batch_size 1",
    "llama_1b": "--model llama-1b --max_seq_length 512 --per_device_train_batch_size 1",
    "llama_1b_checkpointing": "--model llama-1b --max_seq_length 512 --per_device_train_batch_size 1 --gradient_checkpointing",
    "llama_70b": "--model llama-70b --max_seq_length 512 --per_device_train_batch_size 1 --memory_budget 2000GiB",
}
# A rank of 8 with BERT-large, a sequence of 128 tokens each.
RANK_PLANS = {f"{dtype}_stage_{stage}": f"--zero_stage {stage}{flag}" for dtype, flag in (("fp32", ""), ("bf16", " --bf16")) for stage in range(4)}
MRPC = ".cache/mrpc/msr_paraphrase_train.txt"
TEXTS = (".cache/shakespeare/input.txt", ".cache/wikitext-2/valid.txt")
MRPC_COLUMNS = "--text_column_names '#1 String,#2 String' --label_column_name Quality"
# Of tests/python/tokenizer_families.py.
FAMILIES = ("gpt2", "roberta", "llama3", "qwen", "smollm2", "added", "llama2", "mistral", "gemma", "t5")
EXEC_BENCH = "build/src/exec/cpu/exec_cpu_bench"
# The build of another Debian, in a root that has its libraries; bench/README.md says how to make it.
TRIXIE_ROOT = ".cache/trixie"
IN_TRIXIE = f"unshare --mount sh -c 'mount -t proc proc {TRIXIE_ROOT}/proc && exec chroot {TRIXIE_ROOT} \"$@\"' sh"


@dataclasses.dataclass(frozen=True)
class Entry:
    name: str
    command: str
    minutes: float  # of one run, on two cores
    memory_gib: float = 2
    needs: tuple = ()  # keys of campaign.REQUIREMENTS, and programs of build/
    output: str = "json"  # how to read it: a function of campaign.READERS
    most_runs: int = 100  # where more would give the same numbers, or take too long
    exits: tuple = (0,)  # exit codes of a measurement that was made


def step(model, setting, minutes, memory_gib, batch=4):
    name = f"step_{model.replace('-', '_').replace('.', '_')}_{setting}"
    of_batch = "" if batch == 4 else f"--per_device_train_batch_size {batch} "
    command = f"bench/compare.py --models {model} --settings {setting} {of_batch}--steps 4 --repeats 1 --json -"
    # Exit 1: a goal was missed, which is a measurement too.
    return Entry(name, command, minutes, memory_gib, ("build/shoehorn", "peers"), exits=(0, 1))


def llm_c(sequence_length):
    command = f"bench/llm_c.py --sequence_length {sequence_length} --rounds 1 --json -"
    return Entry(f"llm_c_{sequence_length}", command, 2, 3, ("build/shoehorn", "llm_c"), exits=(0, 1))


def character_gpt(setting, steps=20, suffix="", **more):
    flags = "--bf16 " if setting == "bf16" else ""
    command = f"bench/compare_character_gpt.py {flags}--steps {steps} --repeats 1 --json - {TEXTS[0]}"
    name = f"character_gpt_{setting}{suffix}"
    return Entry(name, command, 12 * steps // 20, 6, ("build/shoehorn", "peers", "texts"), exits=(0, 1), **more)


def vocabulary_loss(setting):
    flags = {"fp32": "", "bf16": "--dtype bf16 ", "fp32_frozen": "--frozen ", "bf16_frozen": "--dtype bf16 --frozen "}[setting]
    command = f"bench/vocabulary_loss.py {flags}--rounds 1 --json -"
    # Where there are no instructions for bf16 PyTorch takes many minutes.
    return Entry(f"vocabulary_loss_{setting}", command, 4, 6, (EXEC_BENCH, "peers"), exits=(0, 1))


def ladder(rung):
    memory_gib = 16 if "checkpointing" not in rung and rung != "accumulation" else 10
    needs = ("build/shoehorn", "peers", *(("compiler",) if "compile" in rung else ()))
    command = f"build/shoehorn bench ladder --against huggingface --rungs {rung} --steps 3 --json"
    return Entry(f"ladder_{rung}", command, 12 if "compile" in rung else 5, memory_gib, needs)


def lowest(rung):
    return Entry(f"lowest_{rung}", f"build/shoehorn bench ladder --rungs {rung} --steps 3 --json", 2, 6, ("build/shoehorn",))


def choices():
    """Of docs/choosing.md: every technique in one sitting, each in processes of its own, in turns."""
    rungs = (
        "batch_4,accumulation,checkpointing,adafactor,8bit,fp16,bf16,bf16_no_master,bf16_lora,layer_major,layer_major_update,"
        "exact,exact_bf16,exact_bf16_8bit,exact_bf16_8bit_no_master"
    )
    command = f"build/shoehorn bench ladder --rungs {rungs} --steps 3 --repeats 1 --json"
    return Entry("choices", command, 12, 10, ("build/shoehorn",))


def plan(name, flags):
    command = "build/shoehorn plan --model_name_or_path bert-large --max_seq_length 512 --per_device_train_batch_size 4"
    return Entry(f"plan_{name}", f"{command} {flags} --json".replace("  ", " "), 0.1, 2, ("build/shoehorn",))


def peak(name, words):
    model, *flags = words.split()
    command = f"build/shoehorn bench step --model {model} --max_seq_length 512 {FEWEST_BYTES} {' '.join(flags)} --max_steps 2 --json"
    return Entry(f"peak_{name}", command.replace("  ", " "), 4, 9, ("build/shoehorn",))


def decoder_plan(name, flags):
    return Entry(f"plan_decoder_{name}", f"build/shoehorn plan {flags} --json", 0.1, 2, ("build/shoehorn",))


def rank_plan(name, flags):
    command = "build/shoehorn plan --model_name_or_path bert-large --world_size 8 --ranks_per_host 1 --per_device_train_batch_size 1 --max_seq_length 128"
    return Entry(f"plan_rank_{name}", f"{command} --num_threads 2 {flags} --json", 0.1, 2, ("build/shoehorn",))


def ranks(model, setting):
    flags = "--bf16 " if setting == "bf16" else ""
    command = f"bench/compare_ranks.py --model {model} {flags}--steps 4 --repeats 1 --json -"
    # Exit 1: a goal was missed, which is a measurement too. Where there are no instructions for bf16 PyTorch takes many minutes.
    return Entry(f"ranks_{model.replace('-', '_')}_{setting}", command, 15, 12, ("build/shoehorn", "peers"), exits=(0, 1))


def slow_link(name, flags=""):
    command = f"bench/slow_link.sh --bf16 --per_device_train_batch_size 1 --max_steps 4 --repeats 1{flags} --json"
    return Entry(name, command, 30, 8, ("build/shoehorn", "texts"), most_runs=1)


def text(setting):
    flags = "--bf16 " if setting == "bf16" else ""
    command = f"bench/compare_text.py --model_name_or_path .cache/minilm --train_file {MRPC} {flags}--steps 40 --repeats 1 --json -"
    return Entry(f"text_minilm_{setting}", command, 3, 3, ("build/shoehorn", "peers", "minilm", "mrpc"), exits=(0, 1))


def tokenizer_family(family):
    texts = " ".join((MRPC, MRPC.replace("train", "test"), *TEXTS))
    command = (
        f"python tests/python/tokenizer_families.py build/shoehorn --count 1000000 --families {family} "
        f"--train {' '.join(TEXTS)} --texts {texts} --json"
    )
    # Exit 1: texts differ. The same texts would give the same numbers.
    return Entry(f"tokenizer_family_{family}", command, 4, 6, ("build/shoehorn", "peers", "mrpc", "texts"), most_runs=1, exits=(0, 1))


def anatomy(setting):
    flags = "--bf16 " if setting == "bf16" else ""
    command = f"build/shoehorn anatomy --model bert-base --per_device_train_batch_size 4 --sequence_length 512 {flags}--steps 3 --json"
    return Entry(f"anatomy_bert_base_{setting}", command, 2, 4, ("build/shoehorn",))


# Shape -> how it is trained.
PROFILES = {
    "llama_135m": "--model llama-135m --per_device_train_batch_size 4",
    "qwen2_0_5b": "--model qwen2-0.5b --per_device_train_batch_size 1",
}


def profile(shape, setting):
    flags = " --bf16" if setting == "bf16" else ""
    command = f"build/shoehorn bench step {PROFILES[shape]} --sequence_length 512{flags} --profile 4 --no_limits --json"
    return Entry(f"profile_{shape}_{setting}", command, 1.5, 8, ("build/shoehorn",), most_runs=1)


# Of what takes longer or shorter from one time to the next: each case many times, in an order drawn anew.
IN_TURNS = " --benchmark_repetitions=15 --benchmark_enable_random_interleaving=true --benchmark_min_time=0.01"


def microbench(name, program, pattern, minutes, memory_gib=2, flags=""):
    command = f"{program} --benchmark_filter='{pattern}' --benchmark_format=json{flags}"
    return Entry(name, command, minutes, memory_gib, (program,))


ENTRIES = [
    Entry("limits", "build/shoehorn env --json", 0.2, needs=("build/shoehorn",)),
    step("bert-base", "fp32", 2, 8),
    step("bert-base", "bf16", 2, 8),
    step("bert-large", "fp32", 7, 17),
    step("bert-large", "bf16", 6, 16),
    step("gpt2", "fp32", 4, 10),
    step("gpt2", "bf16", 4, 9),
    step("gpt2", "bf16_compile", 6, 7),
    step("llama-135m", "fp32", 4, 8),
    step("llama-135m", "bf16", 4, 8),
    step("llama-135m", "bf16_compile", 6, 7),
    step("qwen2-0.5b", "fp32", 6, 14, batch=1),
    step("qwen2-0.5b", "bf16", 6, 14, batch=1),
    step("qwen2-0.5b", "bf16_compile", 8, 14, batch=1),
    step("qwen2-0.5b", "lora_bf16", 5, 6, batch=1),
    llm_c(64),
    llm_c(256),
    character_gpt("fp32"),
    character_gpt("bf16"),
    character_gpt("bf16", steps=150, suffix="_150", most_runs=1),
    *(vocabulary_loss(setting) for setting in ("fp32", "fp32_frozen", "bf16", "bf16_frozen")),
    *(ladder(rung) for rung in LADDER_OF_THE_GUIDES),
    *(ladder(rung) for rung in LADDER_BESIDE),
    *(lowest(rung) for rung in LOWEST),
    choices(),
    Entry(
        "recompute",
        "build/shoehorn bench ladder --model bert-base --rungs accumulation,checkpointing --steps 4 --json",
        2, 4, ("build/shoehorn",),
    ),
    # Exit 1: a goal was missed, which is a measurement too.
    Entry(
        "loaded_bert_base", "bench/loaded.py --model bert-base --rounds 10 --json -", 40, 6, ("build/shoehorn", "peers"),
        most_runs=1, exits=(0, 1),
    ),
    Entry(
        "loaded_spins", "bench/loaded.py --model bert-mini --rounds 10 --steps 30 --spins 0 300 1000 3000 10000 300000 --json -",
        15, 2, ("build/shoehorn",), most_runs=1,
    ),
    Entry(
        "onednn_builds",
        f"bench/compare_builds.py --first build/shoehorn --second {shlex.quote(IN_TRIXIE + ' /root/shoehorn/build/shoehorn')} "
        "--models bert-base --settings fp32 bf16 --repeats 5 --json -",
        5, 4, ("build/shoehorn", "trixie"), most_runs=1,
    ),
    text("fp32"),
    text("bf16"),
    Entry(
        "data_wait",
        f"build/shoehorn train --model_name_or_path .cache/minilm --train_file {MRPC} {MRPC_COLUMNS} --max_steps 40 "
        "--per_device_train_batch_size 16 --dataloader_num_workers 0 --save_strategy no --output_dir .cache/campaign "
        "--overwrite_output_dir --json",
        1, 2, ("build/shoehorn", "minilm", "mrpc"),
    ),
    # The same seeds give the same accuracy: one run holds every seed.
    Entry(
        "quality_minilm",
        f"build/shoehorn bench quality --model_name_or_path .cache/minilm --train_file {MRPC} --validation_file "
        f"{MRPC.replace('train', 'test')} {MRPC_COLUMNS} --max_train_samples 960 --max_eval_samples 400 "
        "--num_train_epochs 1 --per_device_train_batch_size 16 --learning_rate 1e-4 --json",
        75, 3, ("build/shoehorn", "minilm", "mrpc"), most_runs=1, exits=(0, 1),
    ),
    Entry("quality_quick", "build/shoehorn bench quality --quick --json", 2, needs=("build/shoehorn",), most_runs=1, exits=(0, 1)),
    anatomy("fp32"),
    anatomy("bf16"),
    *(profile(shape, setting) for shape in PROFILES for setting in ("fp32", "bf16")),
    microbench("products", EXEC_BENCH, "^(forward|input_gradient|weight_gradient)/", 4),
    microbench("attention", EXEC_BENCH, "^AttentionBench/(Forward|Backward)", 1),
    microbench("updates", EXEC_BENCH, "in_turns", 0.5),
    microbench("checksum", "build/src/io/io_bench", "^(save_safetensors|checksum)/", 2, 3, IN_TURNS),
    microbench("checksum_pairs", "build/src/io/io_bench", "^save_pairs/", 1, 3),
    microbench("packing", "build/src/plan/plan_bench", "^BM_pack", 1),
    Entry(
        "tokenizer",
        f"python bench/peers/tokenizer_rate.py --bench build/src/tokenize/tokenize_bench --model .cache/minilm --mrpc {MRPC} "
        f"--fortunes /usr/share/games/fortunes --families gpt2 llama3 qwen smollm2 --train {MRPC} --json -",
        5, 2, ("build/src/tokenize/tokenize_bench", "peers", "minilm", "mrpc", "fortunes"),
    ),
    *(tokenizer_family(family) for family in FAMILIES),
    *(plan(name, flags) for name, flags in PLANS.items()),
    *(decoder_plan(name, flags) for name, flags in DECODER_PLANS.items()),
    *(rank_plan(name, flags) for name, flags in RANK_PLANS.items()),
    *(peak(name, words) for name, words in PEAKS.items()),
    Entry(
        "parallel_gpt2",
        "bench/parallel_gpt2.sh --modes dp,ddp --bf16 --per_device_train_batch_size 2 --max_steps 8 --link_bandwidths 10,1 --json",
        60, 8, ("build/shoehorn", "texts"), most_runs=1,
    ),
    slow_link("slow_link_gpt2"),
    slow_link("slow_link_gpt2_layer_major", " --accumulation_order layer_major"),
    *(ranks(model, setting) for model in ("bert-base", "gpt2") for setting in ("bf16", "fp32")),
    Entry(
        "rank_share_bert_large",
        "bench/compare_ranks.py --model bert-large --ranks 8 --per_device_train_batch_size 1 --sequence_length 128 --steps 2 "
        "--sides one zero_3 --share_goal 0.2 --repeats 1 --json -",
        5, 9, ("build/shoehorn",), most_runs=1, exits=(0, 1),
    ),
    Entry("search_speed", "bench/search_speed.py --repeats 3 --json -", 4, 2, ("build/shoehorn",), most_runs=1),
    # Exit 1: a goal was missed, which is a measurement too.
    Entry(
        "recompute_budget_bert_large", "bench/recompute_budget.py --model bert-large --json -", 15, 14, ("build/shoehorn",), most_runs=1,
        exits=(0, 1),
    ),
    Entry(
        "recompute_budget_gpt2", "bench/recompute_budget.py --model gpt2 --json -", 6, 8, ("build/shoehorn",), most_runs=1, exits=(0, 1),
    ),
    Entry("predict_times", "bench/predict_times.py --calibrate --rounds 4 --json -", 14, 2, ("build/shoehorn",), most_runs=1),
    Entry(
        "predict_times_decoders", "bench/predict_times.py --calibrate --models gpt2 llama-135m --lengths 128 --rounds 4 --json -", 16, 4,
        ("build/shoehorn",), most_runs=1,
    ),
    Entry(
        "epoch_time", f"bench/epoch_time.py --calibrate --model_name_or_path .cache/minilm --train_file {MRPC} --json -", 12, 2,
        ("build/shoehorn", "minilm", "mrpc"), most_runs=1, exits=(0, 1),
    ),
    # Exit 1: a goal was missed, which is a measurement too.
    Entry(
        "drawn_settings",
        f"bench/drawn_settings.py --model_name_or_path .cache/minilm --train_file {MRPC} --text_file {TEXTS[0]} --json -",
        12, 3, ("build/shoehorn", "minilm", "mrpc", "texts"), most_runs=1, exits=(0, 1),
    ),
    Entry("rank_kills", "bench/rank_kills.py --json -", 3, 3, ("build/tests/cross_room_test",), most_runs=1, exits=(0, 1)),
    Entry("host_kills", "bench/rank_kills.py --hosts --json -", 5, 3, ("build/tests/mpi_test",), most_runs=1, exits=(0, 1)),
    Entry("rising_budgets", "bench/rising_budgets.py --calibrate --json -", 3, 3, ("build/shoehorn",), most_runs=1, exits=(0, 1)),
    Entry("fit_choice", "bench/fit_choice.py --calibrate --json -", 32, 4, ("build/shoehorn",), most_runs=1, exits=(0, 1)),
    Entry(
        "fit_choice_gpt2", "bench/fit_choice.py --calibrate --model gpt2 --json -", 40, 6, ("build/shoehorn",), most_runs=1, exits=(0, 1),
    ),
    # It plans for a machine of the catalogue: the same numbers everywhere.
    Entry("catalog_ladder", "bench/catalog_ladder.py --json -", 0.2, 2, ("build/shoehorn",), most_runs=1),
    Entry("demo", "demo/run.sh build/shoehorn", 1.5, 2, ("build/shoehorn", "minilm", "fortunes"), output="demo"),
    Entry("demo_lm", "demo/language_model.sh build/shoehorn", 3, 2, ("build/shoehorn", "fortunes"), output="demo_lm"),
    Entry("fresh_bookworm", "scripts/fresh_machine.sh bookworm demo", 25, 4, ("root",), output="fresh_machine", most_runs=1),
    Entry("fresh_trixie", "scripts/fresh_machine.sh trixie demo", 25, 4, ("root",), output="fresh_machine", most_runs=1),
]  # fmt: skip
NAMES = [entry.name for entry in ENTRIES]
