// Which run a command is about. Where heed train puts one: train/out_folder.h.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "nn/train/run_folder.h"

namespace heed {

/// Whether the folder holds a config.toml, and whether its run got as far as its first save.
bool is_run(const std::filesystem::path& folder);
bool has_saved(const std::filesystem::path& folder);

/// When a run was last saved; nothing if the folder holds none, or none that ever was.
std::optional<std::filesystem::file_time_type> last_written(const std::filesystem::path& folder);

/// RUN of eval, generate and info: `given`, or the newest run under runs/ if it is empty. IoError
/// if it is no run, or there is none.
std::filesystem::path find_run(const std::string& given);

/// nn::load_run; on stderr, what a user should know of the file.
nn::LoadedRun open_run(const std::filesystem::path& folder, const std::string& weights,
                       nn::Use use);

}  // namespace heed
