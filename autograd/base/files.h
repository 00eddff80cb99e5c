// Reads files, replaces them and appends to them. Errors state the path and the reason.
// write_file() replaces a file atomically: after a crash, the path has either the old contents or
// the new contents.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace heed::autograd {

/// An open directory. Files that are written relative to it (PathAt) are stored in this directory,
/// even if the directory is moved and another one takes its path.
class Directory {
 public:
  /// Opens the directory. Throws IoError if this fails.
  explicit Directory(const std::string& path);
  ~Directory();
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  /// Returns the file descriptor, for system calls such as openat.
  int descriptor() const { return descriptor_; }
  /// Returns whether `path` refers to this directory.
  bool is_at(const std::string& path) const;
  /// Returns the path that was given to the constructor if it still refers to this directory.
  /// Otherwise returns the absolute path of the directory: the current one if it was moved, the
  /// last one if it was removed. Without /proc, always returns the path that was given.
  std::string path() const;
  /// Returns whether the directory was removed. No file can be created in it then.
  bool is_removed() const;

 private:
  std::string path_;
  int descriptor_;
};

/// The path of a file to write. If `directory` is not null, the path is relative to this directory,
/// as in openat (POSIX). The directory must outlive the object.
struct PathAt {
  /// Converts a path: a std::string, a std::filesystem::path or a literal.
  template <std::convertible_to<std::string> Path>
  PathAt(const Path& path_) : path(path_) {}
  /// Creates a path that is relative to a directory.
  PathAt(const Directory* directory_, std::string path_)
      : directory(directory_), path(std::move(path_)) {}

  const Directory* directory = nullptr;  ///< null: the current directory
  std::string path;                      ///< path of the file
  /// Returns `path`, preceded by the current path of the directory if there is one, for messages.
  std::string text() const {
    return !directory ? path : directory->path() + (path == "." ? "" : "/" + path);
  }
};

///@{
/// Creates the file at `path`, or replaces its contents. Writes the parts one after the other into
/// a temporary file in the same directory, calls fsync on this file, renames it to `path`, and
/// calls fsync on the directory. If `path` is a symbolic link, its target is replaced and the link
/// stays, but in an open directory the link is replaced. The new file has the permissions of the
/// old one. Throws IoError if a step fails, or if `path` exists and is not a regular file. If the
/// rename or a step before it fails, the old file is intact and the temporary file is removed. A
/// kill can leave the temporary file: `path`.tmpPID.N.
void write_file(const PathAt& path, std::span<const std::span<const std::byte>> parts);
void write_file(const PathAt& path, std::string_view text);
///@}

/// Creates a directory if it does not exist. Its parent must exist. Throws IoError on failure, or
/// if `path` is a symbolic link in an open directory.
void make_directory(const PathAt& path);
/// Removes a file. Returns whether this succeeded. Does not throw.
bool remove_file(const PathAt& path);

/// Appends to an existing file.
class AppendFile {
 public:
  /// Opens the file. Throws IoError if this fails, or if it is a symbolic link in an open
  /// directory.
  explicit AppendFile(const PathAt& path);
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

/// Returns the contents of a regular file. Throws IoError if the file cannot be read, if it has
/// more than `limit` bytes, or if `path` is a directory, a pipe or a device. If `path` is a pipe,
/// the function throws at once and does not wait for data.
std::string read_file(const std::string& path,
                      std::uint64_t limit = std::numeric_limits<std::uint64_t>::max());

/// A regular file that is open for reading.
class InputFile {
 public:
  /// Opens the file. Throws IoError if it cannot be opened, if it is not a regular file, or if it
  /// has contents but size 0, as files in /proc.
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
