// Checks that all ops and layers are registered if heed is linked through another static library.
#include <cstddef>
#include <cstdint>
#include <iostream>

std::size_t count_checks();
std::int64_t count_model();

int main() {
  std::cout << count_checks() << " checks, " << count_model() << " parameters\n";
  return count_checks() > 60 && count_model() == 1000 ? 0 : 1;
}
