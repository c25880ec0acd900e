#!/bin/sh
# Whether this machine has each header of a library that the sources include: what `make setup` installs is enough for all of
# them, tests too. Those of what is optional (MPI, hwloc, Google Benchmark) are left out.
#
#   scripts/outside_headers.sh
#
# Exit: 0; 1 with a line for each header that is missing and who includes it.
set -eu

cd "$(dirname "$0")/.."
folders='src tests examples fuzz cmake'
optional='mpi\.h|hwloc.*|benchmark/.*'
including='^[[:space:]]*#[[:space:]]*include <[^>]+\.(h|hpp)>'
code=0
# shellcheck disable=SC2086  # the folders are words
for header in $(grep -rhoE "$including" --include='*.cc' --include='*.h' $folders | sed -E 's/.*<(.+)>/\1/' |
  sort -u | grep -vxE "$optional"); do
  if ! printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$header" | "${CXX:-c++}" -std=c++20 -x c++ -E - > /dev/null 2>&1; then
    echo "$header is missing; $(grep -rlF "include <$header>" --include='*.cc' --include='*.h' $folders | head -n 1) includes it"
    code=1
  fi
done
exit "$code"
