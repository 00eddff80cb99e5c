// Reads and writes whole files. Errors state the path and the reason. A write replaces the file
// atomically: after a crash, the path has either the old contents or the new contents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace heed::autograd {

///@{
/// Creates the file at `path`, or replaces its contents. Writes the parts one after the other into
/// a temporary file in the same directory, calls fsync on this file, renames it to `path`, and
/// calls fsync on the directory. If `path` is a symbolic link, its target is replaced and the link
/// stays. Throws IoError if a step fails, or if `path` exists and is not a regular file. If a step
/// before the rename fails, the old file is intact and the temporary file is removed.
void write_file(const std::string& path, std::span<const std::span<const std::byte>> parts);
void write_file(const std::string& path, std::string_view text);
///@}

/// Calls fsync on a directory, so that earlier renames in it survive a power failure. Does nothing
/// if the directory is not readable, or if the file system does not support fsync on a directory.
/// Throws IoError on any other failure.
void sync_directory(const std::string& path);

/// Checks that write_file() can start to write this path: creates the temporary file and removes it
/// again. Throws the IoError of write_file() if this fails. The file at `path` is not changed. Call
/// this function before a long computation whose result is written at the end.
void check_writable(const std::string& path);

/// Returns the contents of a regular file. Throws IoError if the file cannot be read, if it has
/// more than `limit` bytes, or if `path` is a directory, a pipe or a device. If `path` is a pipe,
/// the function throws at once and does not wait for data.
std::string read_file(const std::string& path,
                      std::uint64_t limit = std::numeric_limits<std::uint64_t>::max());

/// A regular file that is open for reading.
class InputFile {
 public:
  /// Opens the file. Throws IoError if it cannot be opened or is not a regular file.
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

}  // namespace heed::autograd
