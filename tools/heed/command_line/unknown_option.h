// Error text for an unknown option.
#pragma once

#include <string>
#include <vector>

namespace heed {

/// Returns the error text for an option that `command` ("heed train") does not have. If the option
/// is known from another program (nanoGPT's "--n_layer"), the text gives heed's name for it,
/// otherwise the most similar of `keys`.
std::string unknown_option(const std::string& argument, const std::string& command,
                           const std::vector<std::string>& keys);

}  // namespace heed
