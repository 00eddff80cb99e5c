// Error texts for unknown options and commands.
#pragma once

#include <string>
#include <vector>

namespace heed {

/// Returns the error text for an option that `command` ("heed train") does not have. If the option
/// is known from another program (nanoGPT's "--n_layer"), the text gives heed's name for it,
/// otherwise the most similar of `keys`.
std::string unknown_option(const std::string& argument, const std::string& command,
                           const std::vector<std::string>& keys);
/// Returns the error text for an unknown command. It names the command that does what `name` means
/// ("sample"), otherwise the most similar of `commands`.
std::string unknown_command(const std::string& name, const std::vector<std::string>& commands);

}  // namespace heed
