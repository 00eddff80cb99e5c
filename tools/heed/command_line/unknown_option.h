// What to say of an option that is not there.
#pragma once

#include <string>
#include <vector>

namespace heed {

/// The error for an option that `command` does not have: our name for nanoGPT's and PyTorch's
/// ("--n_layer"), else the nearest of `keys`.
std::string unknown_option(const std::string& argument, const std::string& command,
                           const std::vector<std::string>& keys);

}  // namespace heed
