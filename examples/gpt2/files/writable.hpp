/// @file
/// Whether there will be a place for a file, asked before the work that it is for.
#pragma once

#include <filesystem>
#include <string>

namespace gpt2_trainer {

/// The nearest folder that exists on the way to this one.
std::filesystem::path existing_ancestor(std::filesystem::path path);

/// Throws an input_error, which begins with the option, unless this may be done with the path; the
/// mode is that of access().
void require_access(const std::filesystem::path& path, int mode, const std::string& option);

/// The same, unless files can be written into this folder, which may have to be made.
void require_writable(const std::filesystem::path& folder, const std::string& option);

}  // namespace gpt2_trainer
