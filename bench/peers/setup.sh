#!/usr/bin/env bash
# Makes a Python environment with the peers that Shoehorn is measured against, and prints the path of its python.
#   bench/peers/setup.sh [DIRECTORY]      default: ${XDG_CACHE_HOME:-~/.cache}/shoehorn/peers
# Done already (same requirements): says so and changes nothing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
directory=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/shoehorn/peers}
stamp=$directory/requirements.installed.txt
if [[ -x $directory/bin/python ]] && cmp -s "$here/requirements.txt" "$stamp"; then
  echo "peers: up to date" >&2
else
  "${PYTHON:-python3}" -m venv "$directory"
  "$directory/bin/python" -m pip install --quiet --requirement "$here/requirements.txt" >&2
  cp "$here/requirements.txt" "$stamp"
fi
echo "$directory/bin/python"
