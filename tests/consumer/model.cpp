// A program that links heed through another static library. It checks that all ops and layers are
// registered.
#include <cstddef>
#include <cstdint>
#include <iostream>

std::size_t count_checks();
std::int64_t count_model();

int main() {
  std::cout << count_checks() << " checks, " << count_model() << " parameters\n";
  return count_checks() > 60 && count_model() == 1000 ? 0 : 1;
}
