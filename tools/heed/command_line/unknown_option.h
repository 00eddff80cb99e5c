// Error text for an unknown option.
#pragma once

#include <string>
#include <vector>

namespace heed {

/// Returns the error text for an option that `command` does not have. It names heed's option if
/// another program (nanoGPT, PyTorch) calls it so ("--n_layer"), else the nearest of `keys`.
std::string unknown_option(const std::string& argument, const std::string& command,
                           const std::vector<std::string>& keys);

}  // namespace heed
