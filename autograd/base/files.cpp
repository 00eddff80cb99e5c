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

// Returns the descriptor of the directory to which a path is relative.
int descriptor_of(const PathAt& path) {
  return path.directory ? path.directory->descriptor() : AT_FDCWD;
}

// Returns the path `name` relative to the directory of `path`.
PathAt with_path(const PathAt& path, std::string name) { return {path.directory, std::move(name)}; }

int open_at(const PathAt& path, int flags, mode_t mode = 0) {
  return repeat_interrupted(
      [&] { return ::openat(descriptor_of(path), path.path.c_str(), flags | O_CLOEXEC, mode); });
}

// Returns the kind of file at `path` (S_IFREG, S_IFDIR, ...), or 0 if there is none. `flags` is 0,
// or AT_SYMLINK_NOFOLLOW for the kind of a symbolic link instead of its target.
mode_t kind_of(const PathAt& path, int flags = 0) {
  struct stat status {};
  const int found = ::fstatat(descriptor_of(path), path.path.c_str(), &status, flags);
  return found == 0 ? status.st_mode & S_IFMT : 0;
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
int create_beside(const PathAt& path, std::string& temporary) {
  static std::atomic<unsigned> counter{0};
  for (int attempt = 0;; ++attempt) {
    temporary = path.path + ".tmp" + std::to_string(::getpid()) + "." + std::to_string(counter++);
    const int file = open_at(with_path(path, temporary), O_WRONLY | O_CREAT | O_EXCL, 0666);
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

// Returns the path of the file that write_file() replaces: `path`, or its target if `path` is a
// symbolic link. A link relative to an open directory is itself replaced. Throws IoError if the
// file exists and is not a regular file.
PathAt target_of(const PathAt& path) {
  // The kind is read once: another process may move the directory of `path` between two reads, and
  // their results would then contradict each other.
  const mode_t kind = kind_of(path, path.directory ? AT_SYMLINK_NOFOLLOW : 0);
  if (path.directory && kind == S_IFLNK) return path;
  if (kind != 0 && kind != S_IFREG)
    cannot_write(path.text(), kind == S_IFDIR ? "it is a directory" : "it is not a regular file");
  if (kind == 0 || kind_of(path, AT_SYMLINK_NOFOLLOW) != S_IFLNK) return path;
  std::error_code ignored;
  const auto resolved = std::filesystem::canonical(path.text(), ignored);
  return resolved.empty() ? path : PathAt(resolved.string());
}

// Returns the directory part of a path, or "." if it has none.
PathAt parent_of(const PathAt& path) {
  const auto parent = std::filesystem::path(path.path).parent_path();
  return with_path(path, parent.empty() ? "." : parent.string());
}

void sync_at(const PathAt& path) {
  const int file = open_at(path, O_RDONLY | O_DIRECTORY);
  // EACCES is not an error: a directory can be writable without being readable.
  int error = file < 0 && errno != EACCES ? errno : 0;
  if (file >= 0 && sync_file(file) != 0 && errno != EINVAL) error = errno;
  if (file >= 0) ::close(file);
  if (error != 0) cannot_write(path.text(), reason(error) + " (when syncing the directory)");
}

// Opens a regular file for reading. Returns its descriptor and its size in bytes.
std::pair<int, std::uint64_t> open_regular(const std::string& path) {
  // With O_NONBLOCK, opening a FIFO does not wait for a writer. The flag has no effect on regular
  // files.
  const int file = open_at(path, O_RDONLY | O_NONBLOCK);
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

Directory::Directory(const std::string& path)
    : path_(path), descriptor_(open_at(path, O_RDONLY | O_DIRECTORY)) {
  if (descriptor_ < 0) fail<IoError>("cannot open " + path, reason(errno));
}

Directory::~Directory() { ::close(descriptor_); }

bool Directory::is_at(const std::string& path) const {
  struct stat opened {
  }, now{};
  return ::fstat(descriptor_, &opened) == 0 && ::stat(path.c_str(), &now) == 0 &&
         opened.st_dev == now.st_dev && opened.st_ino == now.st_ino;
}

std::string Directory::path() const {
  if (is_at(path_)) return path_;
  std::error_code error;
  const std::filesystem::path link = "/proc/self/fd/" + std::to_string(descriptor_);
  std::string now = std::filesystem::read_symlink(link, error).string();
  constexpr std::string_view kRemoved = " (deleted)";  // Linux appends it, see proc(5)
  if (is_removed() && now.ends_with(kRemoved)) now.resize(now.size() - kRemoved.size());
  return error ? path_ : now;
}

bool Directory::is_removed() const {
  struct stat status {};
  return ::fstat(descriptor_, &status) != 0 || status.st_nlink == 0;
}

void write_file(const PathAt& path, std::span<const std::span<const std::byte>> parts) {
  const PathAt target = target_of(path);
  std::string temporary;
  const int file = create_beside(target, temporary), directory = descriptor_of(target);
  if (file < 0) cannot_write(path.text(), reason(errno));
  struct stat old {};
  // A file system without permissions rejects fchmod; the file then has its default permissions.
  if (::fstatat(directory, target.path.c_str(), &old, 0) == 0)
    std::ignore = ::fchmod(file, old.st_mode & 07777);
  int error = write_and_close(file, parts);
  if (error == 0 && ::renameat(directory, temporary.c_str(), directory, target.path.c_str()) != 0)
    error = errno;
  if (error != 0) {
    ::unlinkat(directory, temporary.c_str(), 0);
    cannot_write(path.text(), reason(error));
  }
  sync_at(parent_of(target));
}

void write_file(const PathAt& path, std::string_view text) {
  const std::span<const std::byte> all[] = {std::as_bytes(std::span(text))};
  write_file(path, all);
}

void make_directory(const PathAt& path) {
  if (::mkdirat(descriptor_of(path), path.path.c_str(), 0777) == 0) return;
  const int error = errno;
  if (error != EEXIST || kind_of(path, path.directory ? AT_SYMLINK_NOFOLLOW : 0) != S_IFDIR)
    fail<IoError>("cannot make the directory " + path.text(), reason(error));
}

bool remove_file(const PathAt& path) {
  return ::unlinkat(descriptor_of(path), path.path.c_str(), 0) == 0;
}

AppendFile::AppendFile(const PathAt& path)
    : path_(path.text()),
      descriptor_(open_at(path, O_WRONLY | O_APPEND | (path.directory ? O_NOFOLLOW : 0))) {
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
  char byte = 0;
  const ssize_t n = size_ > 0 ? 0 : ::pread(descriptor_, &byte, 1, 0);
  if (n == 0) return;
  const std::string problem =
      n < 0 ? reason(errno) : "it has contents, but size 0, as files in /proc; use a copy of it";
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
