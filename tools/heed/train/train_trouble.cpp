#include "tools/heed/train/train_trouble.h"

#include "autograd/base/files.h"
#include "autograd/base/text.h"
#include "nn/run/run_folder.h"
#include "nn/study/causality.h"
#include "tools/heed/report/output.h"

namespace heed {

void check_causality(const nn::Trainer& t, const std::filesystem::path& folder) {
  const std::vector<nn::Reach::Place> leaks =
      past_input_checks([&] { return nn::spot_leaks(t.model, t.config().seed + t.steps_done); });
  if (leaks.empty()) return;
  throw CheckError(fmt::format(
      "the model is not causal: its output {} depends on input {} (derivative {:g}, needs 0), and "
      "so at {} more of the places tried; run heed verify causality {}",
      leaks[0].output, leaks[0].input, leaks[0].value, leaks.size() - 1, folder.string()));
}

std::string keep_audit(const std::vector<nn::ParameterAudit>& audit,
                       const std::filesystem::path& folder) {
  autograd::write_file(nn::RunFolder(folder).file(nn::RunFolder::kAudit).string(),
                       nn::audit_table(audit));
  return nn::audit_line(audit);
}

std::string missing_gradients(const nn::Trainer& t) {
  const std::vector<std::string> names = t.parameters_without_gradient();
  if (names.empty()) return "";
  return fmt::format("no gradient reaches {} in step {}: {}", heed::join(names), t.steps_done,
                     t.why_no_gradient(names));
}

}  // namespace heed
