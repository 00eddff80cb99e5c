#include "tools/heed/verify/verify_resume.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "nn/run/run_folder.h"
#include "nn/run/verify_resume.h"
#include "tools/heed/find_run.h"
#include "tools/heed/report/output.h"
#include "tools/heed/report/progress.h"

namespace heed {

namespace fs = std::filesystem;

namespace {

// A folder that is gone at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code error;
    const fs::path top = fs::temp_directory_path(error);
    if (error)
      heed::fail<autograd::IoError>("verify", "TMPDIR names no folder: ", error.message(),
                                    "; set it to one for temporary files");
    std::string name = (top / "heed-verify-XXXXXX").string();
    if (!::mkdtemp(name.data()))
      heed::fail<autograd::IoError>("verify", "cannot make ", name, ": ",
                                    std::generic_category().message(errno));
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

nn::ResumeCheck check_resume(const fs::path& folder) {
  const nn::RunConfig config = open_run(folder, nn::RunFolder::kModel, nn::Use::kSequences).config;
  const TemporaryFolder temporary;
  const InterruptGuard interrupt;
  Progress progress(false);
  return past_input_checks([&] {
    return nn::verify_resume(config, nn::RunFolder(temporary.path()),
                             [&](std::int64_t done, std::int64_t all) {
                               interrupt.check();
                               progress.at_work(fmt::format("step {} of {}", done, all));
                             });
  });
}

}  // namespace

Report verify_resume(const std::string& run) {
  const fs::path folder = find_run(run);
  nn::ResumeCheck check;
  try {
    check = check_resume(folder);
  } catch (const Interrupted&) {
    return Report::failed(kInterrupted);
  }
  const auto hash_text = [](std::uint32_t hash) { return fmt::format("{:08x}", hash); };
  const std::string hash = hash_text(check.legs[0].hash);
  Report report(kResumeKeys);
  report.line("{}: its first {} steps again, straight, and stopped and resumed", folder.string(),
              check.steps);
  report.set("ok", check.ok());
  report.set("hash", hash);
  report.set("run", folder.string());
  report.set("steps", check.steps);
  Table& legs = report.table("legs");
  for (const auto& leg : check.legs) legs.add({leg.name, hash_text(leg.hash), leg.difference});
  if (check.ok())
    report.line("Every row, weight, moment and random stream is the same, bit for bit: {}", hash);
  else
    report.line("A resumed run is not the straight one");
  report.fail(check.ok() ? kOk : kCheckFailed);
  return report;
}

}  // namespace heed
