#!/bin/sh
# A stranger's program builds against the installed tree: examples/fine_tune.cc, by the CMake package and by pkg-config.
#
#   tests/installed_tree.sh BUILD_DIR CXX
#
# Exit: 0, or the code of what failed. The part of pkg-config is left out where there is no pkg-config, and says so.
set -eu

build=$1
compiler=$2
source=$(cd "$(dirname "$0")/.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cmake --install "$build" --prefix "$scratch/installed" > "$scratch/log" || { cat "$scratch/log"; exit 1; }
# Moved, so that nothing can lean on where it was installed to, and away from the sources.
mv "$scratch/installed" "$scratch/prefix"
mkdir "$scratch/program"
cp "$source/examples/fine_tune.cc" "$scratch/program"
cat > "$scratch/program/CMakeLists.txt" << 'END'
cmake_minimum_required(VERSION 3.25)
project(stranger CXX)
find_package(shoehorn 0.1 REQUIRED)
add_executable(fine_tune fine_tune.cc)
target_link_libraries(fine_tune shoehorn::shoehorn)
END

# The program links and runs: it says how it is called.
check() {
  if "$1" > "$scratch/said" 2>&1; then echo "expected $1 without arguments to fail"; exit 1; fi
  grep -q 'MODEL_DIR' "$scratch/said" || { echo "expected $1 to say how it is called, got:"; cat "$scratch/said"; exit 1; }
}

cmake -S "$scratch/program" -B "$scratch/by_cmake" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" \
  -DCMAKE_PREFIX_PATH="$scratch/prefix"
cmake --build "$scratch/by_cmake"
check "$scratch/by_cmake/fine_tune"

file=$(find "$scratch/prefix" -name shoehorn.pc)
if command -v pkg-config > /dev/null; then
  # shellcheck disable=SC2046  # the flags are words
  "$compiler" "$scratch/program/fine_tune.cc" -o "$scratch/by_pkg_config" $(pkg-config --cflags --libs "$file")
  check "$scratch/by_pkg_config"
else
  echo "no pkg-config: $(basename "$file") is not tried"
fi
"$scratch/prefix/bin/shoehorn" --version | grep -q '^shoehorn [0-9]'
for file in bash-completion/completions/shoehorn zsh/site-functions/_shoehorn fish/vendor_completions.d/shoehorn.fish \
  man/man1/shoehorn.1; do
  grep -q learning_rate "$scratch/prefix/share/$file" || { echo "expected $file to name flags"; exit 1; }
done
