// Which run a command is about. Where heed train puts one: plan/out_folder.h.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "nn/train/run_folder.h"

namespace heed {

/// Whether the folder holds a config.toml, as every run's does from its start.
bool is_run(const std::filesystem::path& folder);
/// Whether it holds weights, final or of a state: its run got as far as its first save.
bool has_saved(const std::filesystem::path& folder);

/// When the run in this folder was last saved; nothing if there is no run, or it never was.
std::optional<std::filesystem::file_time_type> last_written(const std::filesystem::path& folder);

/// The setting RUN, for find_run().
nn::Setting run_setting(std::string& run);

/// The folder that RUN on a command line means: `given`, or, if that is empty, the run under runs/
/// that was saved last. IoError if `given` is no run or never saved, or there is none to choose.
std::filesystem::path find_run(const std::string& given);

/// nn::load_run, and on stderr the note that it makes of the file.
nn::LoadedRun open_run(const std::filesystem::path& folder, const std::string& weights,
                       nn::Use use);

}  // namespace heed
