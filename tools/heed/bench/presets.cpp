#include "tools/heed/bench/presets.h"

#include <stdexcept>

namespace heed {
namespace {

constexpr std::pair<std::string_view, std::int64_t> kVocabularies[] = {
    {"micro", 32}, {"toy", 64}, {"chargpt", 65}, {"small", 65}};

}  // namespace

std::vector<std::string> bench_presets() {
  std::vector<std::string> names;
  for (const auto& [name, vocabulary] : kVocabularies) names.emplace_back(name);
  return names;
}

std::int64_t bench_vocabulary(std::string_view preset) {
  for (const auto& [name, vocabulary] : kVocabularies)
    if (name == preset) return vocabulary;
  throw std::logic_error("bench: no vocabulary for " + std::string(preset));
}

}  // namespace heed
