#!/bin/sh
# `shoehorn bench parallel` of GPT-2's shape on the next token of a text, with a tokenizer learned from it: the guides' comparison
# of two devices.
#
#   bench/parallel_gpt2.sh [FLAGS of bench parallel, and of train]
set -eu

cd "$(dirname "$0")/.."
text=.cache/wikitext-2/valid.txt
if [ ! -f "$text" ]; then
  echo "error: expected $text, wikitext-2's validation text; put it there (bench/README.md)" >&2
  exit 2
fi
tokenizer=$(mktemp -d)
trap 'rm -rf "$tokenizer"' EXIT
build/shoehorn tokenizer train --output_dir "$tokenizer/gpt2" --vocab_size 8192 --special_tokens '<|endoftext|>' "$text" > "$tokenizer/log"
build/shoehorn bench parallel --model_type gpt2 --tokenizer_name "$tokenizer/gpt2" --task causal-lm --train_file "$text" \
  --block_size 512 "$@"
