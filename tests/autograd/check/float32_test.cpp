#include "autograd/check/float32.h"
#include "autograd/kernels/simd/simd.h"
#include "tests/support/catch.h"
#include <iostream>
#include <map>
namespace {
using namespace heed::autograd;
TEST_CASE("probe") {
  std::map<std::string,int> why;
  int ran = 0, skipped = 0, bad = 0;
  const auto targets = kernels::simd_targets();
  for (const Check* c : registered_checks()) {
    for (const Sample& s : c->samples()) {
      try {
        for (const auto& r : check_float32(s.f, s.inputs, targets)) {
          ++ran;
          if (!r.ok) { ++bad; std::cout << "BAD " << c->name() << " / " << s.name << " " << r.target << ": " << r.message << "\n"; }
          else if (r.worst > 0.5) std::cout << "near " << c->name() << " / " << s.name << " " << r.target << ": " << r.worst << "\n";
        }
      } catch (const Error& e) {
        ++skipped;
        std::cout << "SKIP " << c->name() << " / " << s.name << ": " << e.what() << "\n";
      }
    }
  }
  std::cout << ran << " " << skipped << " " << bad << "\n";
}
}
