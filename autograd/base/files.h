// Reads files, replaces them and appends to them. Errors state the path and the reason.
// write_file() replaces a file atomically: after a crash, the path has either the old contents or
// the new contents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace heed::autograd {

///@{
/// Creates the file at `path`, or replaces its contents. Writes the parts one after the other into
/// a temporary file in the same directory, calls fsync on this file, renames it to `path`, and
/// calls fsync on the directory. A symbolic link at `path` is itself replaced; its target does not
/// change. The new file has the permissions of the old one. Throws IoError if a step fails, or if
/// `path` or the target of a link at `path` exists and is not a regular file. If the rename or a
/// step before it fails, the old file is intact and the temporary file is removed. A kill can leave
/// the temporary file: `path`.tmpPID.N.
void write_file(const std::string& path, std::span<const std::span<const std::byte>> parts);
void write_file(const std::string& path, std::string_view text);
///@}

/// Appends to an existing file.
class AppendFile {
 public:
  /// Opens the file. Throws IoError if this fails, or if it is a symbolic link.
  explicit AppendFile(const std::string& path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  /// Writes the text at the end of the file, normally by one system call. Throws IoError on
  /// failure; a part of the text may then be in the file.
  void write(std::string_view text) const;

 private:
  std::string path_;
  int descriptor_;
};

///@{
/// is_there() returns true if `path` exists, is_file() if it exists and is not a directory. A
/// symbolic link stands for its target. Throws IoError if this cannot be determined, for example
/// because a directory of the path is not accessible.
bool is_there(const std::filesystem::path& path);
bool is_file(const std::filesystem::path& path);
///@}

/// A regular file that is open for reading.
class InputFile {
 public:
  /// Opens the file, without waiting for the writer of a pipe. Throws IoError if it cannot be
  /// opened, if it is not a regular file, or if it has contents but size 0, as files in /proc.
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// Returns the path that was given to the constructor.
  const std::string& path() const { return path_; }
  /// Returns the size in bytes at the time of opening.
  std::uint64_t size() const { return size_; }
  /// Reads out.size() bytes of the file into `out`, starting at byte `offset`. Throws IoError if
  /// reading fails or if the file ends earlier.
  void read(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  std::string path_;
  int descriptor_;
  std::uint64_t size_ = 0;
};

/// Returns the contents of a regular file. Throws the errors of InputFile, and IoError if the file
/// has more than `limit` bytes.
std::string read_file(const std::string& path,
                      std::uint64_t limit = std::numeric_limits<std::uint64_t>::max());

}  // namespace heed::autograd
