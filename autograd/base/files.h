// Whole files: read with every error named, written so that a kill at any moment leaves the old
// file or the new one, never half of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace heed::autograd {

/// Replaces the file at `path` with these bytes, or makes it: a temporary file beside it, fsync,
/// rename, fsync of the directory. A symbolic link keeps pointing where it does. IoError with path
/// and reason, no temporary file left and the old file intact, when any step before the rename
/// fails or `path` is something else than a regular file.
/// `parts` are written one after the other: large arrays need no copy of their own.
void write_file(const std::string& path, std::span<const std::span<const std::byte>> parts);
void write_file(const std::string& path, std::string_view text);

/// Makes the renames in a directory durable (fsync). Some file systems cannot; that is no error.
/// IoError.
void sync_directory(const std::string& path);

/// Errors as write_file() would have now; leaves everything as it is. For a result that takes long.
void check_writable(const std::string& path);

/// The contents of a regular file; IoError with path and reason, also for more than `limit` bytes
/// and for a directory, pipe or device, on none of which it waits.
std::string read_file(const std::string& path,
                      std::uint64_t limit = std::numeric_limits<std::uint64_t>::max());

/// A regular file open for reading. The constructor and read() throw IoError with path and reason.
class InputFile {
 public:
  explicit InputFile(const std::string& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }
  /// Bytes offset .. offset + out.size(); IoError if the file ends before.
  void read(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  std::string path_;
  int descriptor_;
  std::uint64_t size_ = 0;
};

}  // namespace heed::autograd
