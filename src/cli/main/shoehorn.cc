// The program. Exit codes: 0 done, 1 failed, 2 the user's mistake.
#include "cli/commands.h"

int main(int argc, char** argv) {
  return shoehorn::run_program({argv + 1, argv + argc});
}
