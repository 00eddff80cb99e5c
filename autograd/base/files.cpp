#include "autograd/base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include "autograd/base/error.h"

namespace heed::autograd {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

[[noreturn]] void cannot_write(const std::string& path, const std::string& why) {
  fail<IoError>("file", "cannot write ", path, ": ", why);
}
[[noreturn]] void cannot_read(const std::string& path, const std::string& why) {
  fail<IoError>("file", "cannot read ", path, ": ", why);
}

// Creates a temporary file in the directory of `path` and returns its descriptor, or -1. Tries up
// to 101 names, because processes that were killed may have left files with these names.
int create_beside(const std::string& path, std::string& temporary) {
  static std::atomic<unsigned> counter{0};
  for (int attempt = 0;; ++attempt) {
    temporary = path + ".tmp" + std::to_string(::getpid()) + "." + std::to_string(counter++);
    const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0 || errno != EEXIST || attempt == 100) return file;
  }
}

// Writes all bytes. Returns 0, or the errno of the failure.
int write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes = bytes.subspan(std::size_t(written));
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

// Writes the parts, calls fsync and closes the file. Returns 0, or the errno of the first failure.
int write_and_close(int file, std::span<const std::span<const std::byte>> parts) {
  int error = 0;
  for (const auto& part : parts)
    if (error == 0) error = write_all(file, part);
  if (error == 0 && ::fsync(file) != 0) error = errno;
  if (::close(file) != 0 && error == 0) error = errno;
  return error;
}

// A write in progress: the resolved path of the target, and the path and descriptor of the
// temporary file that will replace it.
struct PendingWrite {
  std::string target, temporary;
  int file;
};

PendingWrite begin_write(const std::string& path) {
  PendingWrite pending{path, {}, -1};
  std::error_code ignored;
  // One call, because another process may move the directory of `path` between two calls.
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  if (std::filesystem::exists(status)) {
    if (!std::filesystem::is_regular_file(status))
      cannot_write(path, std::filesystem::is_directory(status) ? "it is a directory"
                                                               : "it is not a regular file");
    const auto resolved = std::filesystem::canonical(path, ignored);
    if (!resolved.empty()) pending.target = resolved.string();
  }
  pending.file = create_beside(pending.target, pending.temporary);
  if (pending.file < 0) cannot_write(path, reason(errno));
  return pending;
}

// Opens a regular file for reading. Returns its descriptor and its size in bytes.
std::pair<int, std::uint64_t> open_regular(const std::string& path) {
  // With O_NONBLOCK, opening a FIFO does not wait for a writer. The flag has no effect on regular
  // files.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) cannot_read(path, reason(errno));
  struct stat status {};
  std::string problem;
  if (::fstat(file, &status) != 0) {
    problem = reason(errno);
  } else if (S_ISDIR(status.st_mode)) {
    problem = "it is a directory";
  } else if (!S_ISREG(status.st_mode)) {
    problem = "it is not a regular file";
  }
  if (!problem.empty()) {
    ::close(file);
    cannot_read(path, problem);
  }
  return {file, std::uint64_t(status.st_size)};
}

}  // namespace

void check_writable(const std::string& path) {
  const PendingWrite pending = begin_write(path);
  ::close(pending.file);
  ::unlink(pending.temporary.c_str());
}

void sync_directory(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // EACCES is not an error: a directory can be writable without being readable.
  int error = file < 0 && errno != EACCES ? errno : 0;
  if (file >= 0 && ::fsync(file) != 0 && errno != EINVAL) error = errno;
  if (file >= 0) ::close(file);
  if (error != 0) cannot_write(path, reason(error) + " (when syncing the directory)");
}

void write_file(const std::string& path, std::span<const std::span<const std::byte>> parts) {
  const auto [target, temporary, file] = begin_write(path);
  int error = write_and_close(file, parts);
  if (error == 0 && std::rename(temporary.c_str(), target.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(temporary.c_str());
    cannot_write(path, reason(error));
  }
  const auto directory = std::filesystem::path(target).parent_path();
  sync_directory(directory.empty() ? "." : directory.string());
}

void write_file(const std::string& path, std::string_view text) {
  const std::span<const std::byte> all[] = {std::as_bytes(std::span(text))};
  write_file(path, all);
}

std::string read_file(const std::string& path, std::uint64_t limit) {
  const auto [file, size] = open_regular(path);
  std::string text, problem, chunk(1 << 16, '\0');
  const auto check_limit = [&](std::uint64_t bytes) {
    if (bytes > limit) problem = "it has more than " + std::to_string(limit) + " bytes";
  };
  check_limit(size);
  // Reads until the end of the file, because fstat reports size 0 for files in /proc.
  for (ssize_t n = 1; n != 0 && problem.empty();) {
    n = ::read(file, chunk.data(), chunk.size());
    if (n > 0) text.append(chunk, 0, std::size_t(n));
    if (n < 0 && errno != EINTR) problem = reason(errno);
    check_limit(text.size());
  }
  ::close(file);
  if (!problem.empty()) cannot_read(path, problem);
  return text;
}

InputFile::InputFile(const std::string& path) : path_(path) {
  std::tie(descriptor_, size_) = open_regular(path);
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t n = ::pread(descriptor_, out.data(), out.size(), off_t(offset));
    if (n > 0) {
      out = out.subspan(std::size_t(n));
      offset += std::uint64_t(n);
    } else if (n == 0) {
      cannot_read(path_, "it is shorter than when it was opened; another program changed it");
    } else if (errno != EINTR) {
      cannot_read(path_, reason(errno));
    }
  }
}

}  // namespace heed::autograd
