// The program's streams, as tests read them.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

namespace heed::testing {

/// While it lives, a stream goes into a file.
class Redirected {
 public:
  Redirected(std::FILE* stream, const std::filesystem::path& file)
      : Redirected(stream, ::open(file.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600)) {}
  /// Into an open file, which it closes.
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
