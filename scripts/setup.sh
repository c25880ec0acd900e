#!/bin/sh
# Installs the packages that are missing (Debian 12 and 13). Root, or sudo, is needed only if something is missing.
#
#   scripts/setup.sh          what building, testing and the demo need
#   scripts/setup.sh --dev    that, and what a developer needs: formatter, linter, compiler cache, linker, fuzzers, micro-benchmarks,
#                             empty machines to try the set-up on. Not installed: a browser, which is large; where there is
#                             one (apt-get install chromium) the test page_layout looks at the pages
set -eu

# The CMake files of libdnnl-dev ask for OpenCL, whose package they only recommend.
packages="g++ cmake ninja-build
  libdnnl-dev ocl-icd-opencl-dev libhwy-dev libfmt-dev nlohmann-json3-dev libutf8proc-dev
  libxxhash-dev libpcre2-dev zlib1g-dev libzstd-dev libgtest-dev
  python3 python3-pip unzip fortunes"

# MPI is what several ranks need, and their tests: 50 MB, which a run of one process never opens. hwloc is what `shoehorn topo`
# needs, which MPI brings anyway. iproute2 is for the tests of several hosts, which also take an sshd where there is one.
# The formatter and the linter by version: each version formats and warns differently. Clang itself is for `make fuzz`.
developer_packages="git ccache lld pkg-config clang-format-19 clang-tidy-19 libbenchmark-dev debootstrap
  clang-19 libclang-rt-19-dev libomp-19-dev libopenmpi-dev openmpi-bin libhwloc-dev iproute2"

case "${1:-}" in
  "") ;;
  --dev) packages="$packages $developer_packages" ;;
  *) echo "usage: scripts/setup.sh [--dev]" >&2; exit 2 ;;
esac

if ! command -v dpkg-query > /dev/null; then
  echo "this is no Debian: install what these packages hold yourself: $packages" >&2
  exit 0
fi
# shellcheck disable=SC2086  # the packages are words
installed=$(dpkg-query --show --showformat '${Package} ${db:Status-Status}\n' $packages 2> /dev/null | sed -n 's/ installed$//p')
# shellcheck disable=SC2086
missing=$(printf '%s\n' $packages | grep -vxF "$installed" | tr '\n' ' ' || true)
[ -n "$missing" ] || exit 0

as_root=
[ "$(id -u)" -eq 0 ] || as_root=sudo
echo "installing: $missing"
$as_root env DEBIAN_FRONTEND=noninteractive apt-get update --quiet
# shellcheck disable=SC2086  # the packages are words
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends $missing < /dev/null
