#include "tools/heed/launcher.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "autograd/base/text.h"
#include "tools/heed/report/output.h"

namespace heed {
namespace {

constexpr const char* kVariables[][3] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"}};
constexpr const char* kPrefixes[] = {"OMPI_", "PMI_", "PMIX_", "PRTE_", "SLURM_"};

}  // namespace

Launcher launcher() {
  for (const auto& [rank_name, size_name, here_name] : kVariables) {
    const char *rank_text = std::getenv(rank_name), *size_text = std::getenv(size_name);
    if (!rank_text || !size_text) continue;
    const auto rank = heed::parse_number<int>(rank_text);
    const auto size = heed::parse_number<int>(size_text);
    if (!rank || !size || *size < 1 || *rank < 0 || *rank >= *size)
      usage_error("{}={} and {}={} name no rank; start heed by mpirun, or unset them", rank_name,
                  rank_text, size_name, size_text);
    const char* here_text = std::getenv(here_name);
    const auto here = heed::parse_number<int>(here_text ? here_text : "");
    return {*rank, *size, here && *here >= 1 && *here <= *size ? *here : 1};
  }
  return {};
}

std::vector<std::string> without_launcher(const std::vector<std::string>& environment) {
  std::vector<std::string> rest = environment;
  std::erase_if(rest, [](const std::string& variable) {
    return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                       [&](const char* prefix) { return variable.starts_with(prefix); });
  });
  return rest;
}

}  // namespace heed
