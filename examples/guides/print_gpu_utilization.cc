// The guides' first look at memory, before anything is loaded. Here it is the memory of this process.
#include "guide.h"

using namespace shoehorn;

int main() {
  print_gpu_utilization();
}
