#include "tools/heed/train/train_ranks.h"

#include <bit>
#include <span>

#include "nn/io/crc32c.h"
#include "nn/train/build.h"
#include "tools/heed/ranks.h"
#include "tools/heed/report/output.h"
#include "tools/heed/train/train_run.h"

namespace heed {
namespace {

bool same_text(nn::Exchange& ranks, const std::string& text) {
  nn::Crc32c sum;
  sum.add(std::as_bytes(std::span(text)));
  return nn::compare_numbers(ranks, sum.value()) == nn::kNothing;
}

// Why they cannot train together, or "".
std::string join_alike(nn::Trainer& t, nn::Exchange& ranks) {
  const std::string target = nn::simd_target_text(t.config());
  if (!same_text(ranks, version_text() + nn::compiler_text() + target))
    return fmt::format(
        "the processes run on other instructions than each other, or are other builds of heed; "
        "rank 0 has {} on {}: name what all machines have, as --simd avx2",
        version_text(), target);
  std::string run = nn::to_toml(t.config()) + std::to_string(nn::hash_of(t.snapshot()));
  for (const auto& [key, value] : t.task->facts().data) run += "\n" + key + " " + value;
  if (!same_text(ranks, run))
    return "the processes have other runs than each other: other texts, or other folders under "
           "one name; a text and the run of --resume lie in a folder that all machines share";
  check_ranks(ranks.size, t.config().accumulate);
  t.join(ranks);
  return "";
}

}  // namespace

void check_ranks(int processes, std::int64_t accumulate) {
  if (std::has_single_bit(unsigned(processes)) && processes <= accumulate) return;
  usage_error(
      "{} processes cannot share the {} part{} of a batch that --accumulate makes: it takes a "
      "power of two of them, at most one a part",
      processes, accumulate, accumulate == 1 ? "" : "s");
}

void lead(nn::Trainer& t, nn::Exchange* ranks) {
  if (!ranks) return;
  nn::or_words(*ranks, nn::kNothing);
  const std::string unlike = join_alike(t, *ranks);
  if (unlike.empty()) return;
  part_ranks();
  throw UsageError(unlike);
}

void lead_nowhere(nn::Exchange* ranks) {
  if (!ranks) return;
  nn::or_words(*ranks, nn::kLeft);
  part_ranks();
}

int follow(nn::Exchange& ranks, const std::function<nn::Trainer()>& make) {
  if (nn::or_words(ranks, nn::kNothing) & nn::kLeft) {
    part_ranks();
    return kOk;
  }
  nn::Trainer trainer = make();
  if (join_alike(trainer, ranks).empty()) return follow_run(trainer);
  part_ranks();
  return kUsage;
}

}  // namespace heed
