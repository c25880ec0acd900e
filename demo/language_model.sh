#!/bin/sh
# The demo of language models: a small GPT learns from scratch to write fortunes.
#
#   demo/language_model.sh SHOEHORN_PROGRAM [FLAG…]
#
# Flags are added to those of plan and train; of two that are the same the later counts. Makes in $DEMO_DIR, or else
# .cache/demo_lm: fortunes.jsonl and held_out.jsonl (from the package fortunes), tokenizer (byte-level BPE, learned from
# them) and model (the result), and prints what the model writes.
set -eu

cd "$(dirname "$0")/.."
shoehorn=$1
shift
data=${DEMO_DIR:-.cache/demo_lm}
fortunes=${FORTUNES_DIR:-/usr/share/games/fortunes}
end='<|endoftext|>'

mkdir -p "$data"
rm -rf "$data/tokenizer" "$data/model"
# Every fortune of every file is a text; each twentieth is held out.
find "$fortunes" -type f ! -name '*.*' | LC_ALL=C sort | while read -r file; do cat "$file"; echo '%'; done |
  LC_ALL=C tr -d '\000-\010\013-\037\177' |
  LC_ALL=C awk -v train="$data/fortunes.jsonl" -v held_out="$data/held_out.jsonl" '
    function end_of_fortune() {
      if (text != "") print "{\"text\": \"" text "\"}" > (++count % 20 == 0 ? held_out : train)
      text = ""
    }
    $0 == "%" { end_of_fortune(); next }
    { gsub(/["\\]/, "\\\\&"); gsub(/\t/, "\\t"); text = text (text == "" ? "" : "\\n") $0 }
    END { end_of_fortune() }'

echo "== A tokenizer of $(wc -l < "$data/fortunes.jsonl") fortunes"
"$shoehorn" tokenizer train --output_dir "$data/tokenizer" --vocab_size 2048 --special_tokens "$end" \
  "$data/fortunes.jsonl"

set -- --task causal-lm --model_type gpt2 --tokenizer_name "$data/tokenizer" \
  --config_overrides n_layer=4,n_head=6,n_embd=192,n_positions=128,vocab_size=2048,bos_token_id=0,eos_token_id=0 \
  --train_file "$data/fortunes.jsonl" --validation_file "$data/held_out.jsonl" --block_size 128 --packing documents --add_eos \
  --per_device_train_batch_size 16 --per_device_eval_batch_size 16 --max_steps 600 --learning_rate 2e-3 \
  --lr_scheduler_type cosine --warmup_ratio 0.05 --weight_decay 0.1 --logging_steps 50 --save_strategy no \
  --output_dir "$data/model" "$@"

echo
echo "== What it will take: shoehorn plan $*"
"$shoehorn" plan "$@"
echo
echo "== Training: shoehorn train, with the same flags"
"$shoehorn" train "$@"
echo
echo "== What it writes: shoehorn generate --model_name_or_path $data/model --temperature 0.8"
"$shoehorn" generate --model_name_or_path "$data/model" --temperature 0.8 --max_new_tokens 60 --num_return_sequences 5
