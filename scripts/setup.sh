#!/bin/sh
# Installs the packages that building, testing and the demo need, where they are missing (Debian 12, Ubuntu 24.04).
# Root, or sudo, is needed only if something is missing.
set -eu

# clang-format and clang-tidy by version: each version formats and warns differently.
packages="g++ cmake ninja-build ccache
  libdnnl-dev libhwy-dev libfmt-dev nlohmann-json3-dev libutf8proc-dev libxxhash-dev libgtest-dev libbenchmark-dev
  clang-format-14 clang-tidy-14
  python3 python3-pip unzip fortunes"

if ! command -v dpkg-query > /dev/null; then
  echo "this is no Debian: install what these packages hold yourself: $packages" >&2
  exit 0
fi
missing=
for package in $packages; do
  dpkg-query --show --showformat '${Status}' "$package" 2> /dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

as_root=
[ "$(id -u)" -eq 0 ] || as_root=sudo
echo "installing:$missing"
$as_root env DEBIAN_FRONTEND=noninteractive apt-get update --quiet
# shellcheck disable=SC2086  # the packages are words
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends $missing < /dev/null
