// Removal of files that heed wrote, without a change of other files.
#pragma once

#include <functional>
#include <string>

#include "autograd/base/files.h"

namespace heed::nn {

/// Returns whether `name`, inside the directory, is a regular file with this owner. Such a file can
/// be removed. Throws IoError if it is one and the system would refuse to remove it: if the file or
/// the directory is immutable, append-only or read-only, or if the directory is sticky and belongs
/// to another user. Changes nothing.
bool is_removable(const autograd::Directory& directory, const std::string& name, unsigned owner);

/// Returns the owner of a regular file inside the directory, or -1 if `name` is missing, a symbolic
/// link or not a regular file.
long owner_of(const autograd::Directory& directory, const std::string& name);

/// Removes the temporary files of write_file() for the names that `contains` accepts. The caller
/// must hold the lock that all processes hold while they write such files. Throws IoError if a file
/// cannot be removed.
void remove_temporaries(const autograd::Directory& directory,
                        const std::function<bool(const std::string& name)>& contains);

}  // namespace heed::nn
