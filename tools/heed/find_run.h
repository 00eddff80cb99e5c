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
/// Makes the folder and removes what an earlier run left in it, nothing else. IoError.
void claim_out(const std::filesystem::path& folder);

/// RUN of eval, generate and info: `given`, or the newest run under runs/ if it is empty. IoError
/// if it is no run, or there is none.
std::filesystem::path find_run(const std::string& given);

}  // namespace heed
