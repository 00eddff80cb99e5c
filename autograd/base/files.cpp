#include "autograd/base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include "autograd/base/error.h"

namespace heed::autograd {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

[[noreturn]] void cannot_write(const std::string& path, const std::string& why) {
  fail<IoError>("cannot write " + path, why);
}
[[noreturn]] void cannot_read(const std::string& path, const std::string& why) {
  fail<IoError>("cannot read " + path, why);
}

// Makes a system call. Repeats it as long as a signal interrupts it.
template <class Call>
auto repeat_interrupted(Call call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

int open_file(const std::string& path, int flags, mode_t mode = 0) {
  return repeat_interrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, mode); });
}

// Returns the type of the file at `path`, or not_found if the path is too long. Throws IoError if
// the type cannot be determined.
std::filesystem::file_type type_of(const std::filesystem::path& path) {
  std::error_code error;
  const auto type = std::filesystem::status(path, error).type();
  if (type != std::filesystem::file_type::none) return type;
  if (error != std::errc::filename_too_long) cannot_read(path.string(), error.message());
  return std::filesystem::file_type::not_found;
}

// Creates a temporary file in the directory of `path` and returns its descriptor, or -1. Tries up
// to 101 names, because processes that were killed may have left files with these names.
int create_beside(const std::string& path, std::string& temporary) {
  static std::atomic<unsigned> counter{0};
  for (int attempt = 0;; ++attempt) {
    temporary = path + ".tmp" + std::to_string(::getpid()) + "." + std::to_string(counter++);
    const int file = open_file(temporary, O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (file >= 0 || errno != EEXIST || attempt == 100) return file;
  }
}

// Writes all bytes. Returns 0, or the errno of the failure.
int write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        repeat_interrupted([&] { return ::write(file, bytes.data(), bytes.size()); });
    if (written < 0) return errno;
    bytes = bytes.subspan(std::size_t(written));
  }
  return 0;
}

int sync_file(int file) {
  return repeat_interrupted([file] { return ::fsync(file); });
}

// Writes the parts, calls fsync and closes the file. Returns 0, or the errno of the first failure.
int write_and_close(int file, std::span<const std::span<const std::byte>> parts) {
  int error = 0;
  for (const auto& part : parts)
    if (error == 0) error = write_all(file, part);
  if (error == 0 && sync_file(file) != 0) error = errno;
  if (::close(file) != 0 && error == 0) error = errno;
  return error;
}

// Calls fsync on the directory that contains `path`.
void sync_directory_of(const std::string& path) {
  std::string parent = std::filesystem::path(path).parent_path().string();
  if (parent.empty()) parent = ".";
  const int file = open_file(parent, O_RDONLY | O_DIRECTORY);
  // EACCES is not an error: a directory can be writable without being readable.
  int error = file < 0 && errno != EACCES ? errno : 0;
  if (file >= 0 && sync_file(file) != 0 && errno != EINVAL) error = errno;
  if (file >= 0) ::close(file);
  if (error != 0) cannot_write(parent, reason(error) + " (when syncing the directory)");
}

}  // namespace

void write_file(const std::string& path, std::span<const std::span<const std::byte>> parts) {
  struct stat old {};
  const bool exists = ::stat(path.c_str(), &old) == 0;
  if (exists && !S_ISREG(old.st_mode))
    cannot_write(path, S_ISDIR(old.st_mode) ? "it is a directory" : "it is not a regular file");
  std::string temporary;
  const int file = create_beside(path, temporary);
  if (file < 0) cannot_write(path, reason(errno));
  // A file system without permissions rejects fchmod; the file then has its default permissions.
  if (exists) std::ignore = ::fchmod(file, old.st_mode & 0777);
  int error = write_and_close(file, parts);
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlink(temporary.c_str());
    cannot_write(path, reason(error));
  }
  sync_directory_of(path);
}

void write_file(const std::string& path, std::string_view text) {
  const std::span<const std::byte> all[] = {std::as_bytes(std::span(text))};
  write_file(path, all);
}

AppendFile::AppendFile(const std::string& path)
    : path_(path), descriptor_(open_file(path, O_WRONLY | O_APPEND | O_NOFOLLOW)) {
  if (descriptor_ < 0) cannot_write(path_, reason(errno));
}

AppendFile::~AppendFile() { ::close(descriptor_); }

void AppendFile::write(std::string_view text) const {
  const int error = write_all(descriptor_, std::as_bytes(std::span(text)));
  if (error != 0) cannot_write(path_, reason(error));
}

bool is_there(const std::filesystem::path& path) {
  return type_of(path) != std::filesystem::file_type::not_found;
}

bool is_file(const std::filesystem::path& path) {
  return is_there(path) && type_of(path) != std::filesystem::file_type::directory;
}

std::string read_file(const std::string& path, std::uint64_t limit) {
  const InputFile file(path);
  if (file.size() > limit)
    cannot_read(path, "it has more than " + std::to_string(limit) + " bytes");
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

// With O_NONBLOCK, opening a FIFO does not wait for a writer. The flag has no effect on regular
// files.
InputFile::InputFile(const std::string& path)
    : path_(path), descriptor_(open_file(path, O_RDONLY | O_NONBLOCK)) {
  if (descriptor_ < 0) cannot_read(path, reason(errno));
  struct stat status {};
  char byte = 0;
  std::string problem;
  if (::fstat(descriptor_, &status) != 0) {
    problem = reason(errno);
  } else if (S_ISDIR(status.st_mode)) {
    problem = "it is a directory";
  } else if (!S_ISREG(status.st_mode)) {
    problem = "it is not a regular file";
  } else if (status.st_size == 0 && ::pread(descriptor_, &byte, 1, 0) != 0) {
    problem = "it has contents, but size 0, as files in /proc; use a copy of it";
  }
  size_ = std::uint64_t(status.st_size);
  if (problem.empty()) return;
  ::close(descriptor_);
  cannot_read(path, problem);
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
