// Removal of files that heed wrote, without a change of other files.
#pragma once

#include <functional>
#include <string>

#include "autograd/base/files.h"

namespace heed::nn {

/// Throws IoError unless heed can write a new file at this path. The path must not exist or must be
/// a regular file of this user. The directory must be writable. Neither the directory nor the file
/// may have the attribute immutable or append-only (chattr). Changes nothing.
void check_replaceable(const autograd::PathAt& file);

/// Returns "loss.png" for "loss.png.tmp123.0", a temporary file of write_file(); "" for other
/// names.
std::string target_of_temporary(const std::string& name);

/// Removes this user's temporary files of write_file() for the names that `contains` accepts. The
/// caller must hold the lock that all processes hold while they write such files. Throws IoError if
/// a file cannot be removed.
void remove_temporaries(const autograd::Directory& directory,
                        const std::function<bool(const std::string& name)>& contains);

}  // namespace heed::nn
