// Random damage to the contents of files.
#pragma once

#include "tests/support/catch.h"

namespace heed::testing {

/// Returns `bytes` with up to 3 random changes. A change overwrites, inserts or removes bytes, or
/// cuts off the end. Three of four changes begin in the first `focus` bytes.
inline std::string mutated(std::string bytes, std::mt19937& random, std::size_t focus) {
  const char* const kFragments[] = {"0",   "9",   "-", "[",    "{",   "\"",       ",",
                                    "1e9", "}",   "]", "=",    "nan", "#",        "\n",
                                    "\\",  "\\u", "8", "true", "'",   "[train]\n"};
  for (auto edits = 1 + random() % 3; edits > 0 && !bytes.empty(); --edits) {
    const std::size_t at = random() % (random() % 4 ? std::min(bytes.size(), focus) : bytes.size());
    const std::string fragment = kFragments[random() % std::size(kFragments)];
    switch (random() % 6) {
      case 0:
        bytes[at] = char(random());
        break;
      case 1:
        bytes.replace(at, 1, fragment);
        break;
      case 2:
        bytes.insert(at, fragment);
        break;
      case 3:
        bytes.erase(at, 1 + random() % 8);
        break;
      case 4:
        if (random() % 4 == 0) bytes.resize(at);
        break;
      default:
        bytes[at] = char(bytes[at] ^ (1 << random() % 8));
    }
  }
  return bytes;
}

}  // namespace heed::testing
