// Redirects stdout or stderr, so that tests can read the output.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

namespace heed::testing {

/// Redirects a stream into a file until the object is destroyed.
class Redirected {
 public:
  Redirected(std::FILE* stream, const std::filesystem::path& file)
      : Redirected(stream, ::open(file.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600)) {}
  /// Redirects the stream into the open file descriptor `file`, and closes `file`.
  Redirected(std::FILE* stream, int file) : stream_(stream), kept_(::dup(::fileno(stream))) {
    std::fflush(stream_);
    ::dup2(file, ::fileno(stream_));
    ::close(file);
  }
  Redirected(const Redirected&) = delete;
  Redirected& operator=(const Redirected&) = delete;
  ~Redirected() {
    std::fflush(stream_);
    ::dup2(kept_, ::fileno(stream_));
    ::close(kept_);
  }

 private:
  std::FILE* stream_;
  int kept_;
};

}  // namespace heed::testing
