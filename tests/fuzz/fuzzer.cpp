// The entry point of libFuzzer, for one target.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  heed::fuzz::HEED_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}
