// For tests: a link between two network namespaces on which every packet takes a given time, for kernels without netem. A
// process of its own holds one end in each namespace (a TUN device) and hands packets from one to the other when they are due.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

namespace shoehorn::test_support {

class LinkRelay {
 public:
  // Makes the device `name` in the namespaces of both processes, without addresses and down. Throws where there is no TUN.
  LinkRelay(pid_t a, pid_t b, const std::string& name, std::chrono::microseconds delay);
  ~LinkRelay();  // the devices go, too
  LinkRelay(const LinkRelay&) = delete;
  LinkRelay& operator=(const LinkRelay&) = delete;

 private:
  pid_t relay_ = 0;
};

}  // namespace shoehorn::test_support
