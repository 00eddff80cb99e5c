// Where runs live: runs/<task>-N, and what --out and RUN mean.
#pragma once

#include <filesystem>
#include <string>

namespace heed {

/// Makes and returns the first runs/<task>-N, N = 1, 2, ..., that does not exist. IoError.
std::filesystem::path make_next_run(const std::string& task);

/// UsageError unless `folder` can take a new run: absent, empty but for what a kill
/// left of unfinished files, or, with `overwrite`, a run.
/// IoError if it is a file.
void check_out(const std::filesystem::path& folder, bool overwrite);
/// Removes what an earlier run left in the folder, nothing else. IoError.
void empty_out(const std::filesystem::path& folder);

/// While it lives no other heed trains into this folder, which it makes if need be; its end, be it
/// by kill -9, frees the folder. UsageError if another one has it; IoError if it cannot be made.
/// Where the file system has no flock it guards nothing.
class RunLock {
 public:
  explicit RunLock(const std::filesystem::path& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;

 private:
  int directory_;
};

/// RUN of eval, generate and info: `given`, or the newest run under runs/ if it is empty. IoError
/// if it is no run, or there is none.
std::filesystem::path find_run(const std::string& given);

}  // namespace heed
