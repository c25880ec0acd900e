#!/bin/sh
# The demo: fine-tunes the pretrained encoder MiniLM (6 layers, H 384) to tell from which of 21 collections a fortune is.
#
#   demo/run.sh SHOEHORN_PROGRAM
#
# Makes .cache/minilm (downloaded once), .cache/demo/*.jsonl (from the package fortunes) and .cache/demo/model (the result).
set -eu

cd "$(dirname "$0")/.."
shoehorn=$1
model=.cache/minilm
data=.cache/demo
output=.cache/demo/model

scripts/fetch_minilm.sh "$model"
scripts/make_fortunes.sh "$data"
rm -rf "$output"

set -- --model_name_or_path "$model" --train_file "$data/train.jsonl" --validation_file "$data/validation.jsonl" \
  --max_seq_length 64 --per_device_train_batch_size 16 --per_device_eval_batch_size 32 --num_train_epochs 1 \
  --learning_rate 2e-4 --warmup_ratio 0.1 --label_smoothing_factor 0.1 --logging_steps 50 --save_strategy no \
  --output_dir "$output"

echo
echo "== What it will take: shoehorn plan $*"
"$shoehorn" plan "$@"
echo
echo "== Training: shoehorn train, with the same flags"
"$shoehorn" train "$@"

# The classifier that knows nothing of the text: it always answers the commonest label of the training set.
baseline=$(awk '
  {
    label = $0
    sub(/.*"label": "/, "", label)
    sub(/".*/, "", label)
  }
  NR == FNR { count[label]++; next }
  { total++; held_out[label]++ }
  END {
    for (label in count) if (best == "" || count[label] > count[best] || (count[label] == count[best] && label < best)) best = label
    printf "%.1f%% (always \"%s\")", 100 * held_out[best] / total, best
  }' "$data/train.jsonl" "$data/validation.jsonl")
accuracy=$(sed -n 's/.*"eval_accuracy": *\([0-9.]*\).*/\1/p' "$output/eval_results.json" | awk '{ printf "%.1f%%", 100 * $1 }')
echo
echo "== On $(wc -l < "$data/validation.jsonl") fortunes it has not seen, $(sed 's/.*"label"//' "$data/train.jsonl" | LC_ALL=C sort -u | wc -l) labels"
echo "accuracy              $accuracy"
echo "majority class        $baseline"

# Any text of your own: a line each.
cat > "$data/mine.jsonl" << 'TEXTS'
{"text": "The compiler is free to reorder your loads, and so is the processor."}
{"text": "The goalkeeper let three through in the first half, and the coach blamed the wind."}
{"text": "A physicist is an atom's way of knowing about atoms."}
{"text": "Captain, the warp core will not hold for another minute!"}
TEXTS
echo
echo "== Texts of your own: put them into a file, a line {\"text\": \"…\"} each, and run"
echo "$shoehorn predict --model_name_or_path $output --test_file $data/mine.jsonl --output_file $data/labels.jsonl"
"$shoehorn" predict --model_name_or_path "$output" --test_file "$data/mine.jsonl" --output_file "$data/labels.jsonl"
paste -d '\n' "$data/mine.jsonl" "$data/labels.jsonl" |
  sed -n 's/^{"text": "\(.*\)"}$/  \1/p; s/^{"index": [0-9]*, "label": *"\([^"]*\)".*/      -> \1/p'
