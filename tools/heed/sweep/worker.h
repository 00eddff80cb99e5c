// This program once more, as a process of its own.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace heed {

/// heed with these arguments, without a launcher's variables, in a process group of its own: Ctrl-C
/// at the terminal reaches it by stop() alone. When this process is killed it is stopped, too.
class Worker {
 public:
  /// IoError if the system starts no more processes.
  explicit Worker(const std::vector<std::string>& arguments);
  /// Stops it, and waits for its end.
  ~Worker();
  Worker(const Worker&) = delete;

  /// Its exit code (of one that a signal killed 128 + the signal) if it has ended.
  std::optional<int> ended();
  /// heed train saves and ends. By SIGHUP, of which it may get several: a second SIGTERM, as where
  /// one goes to all processes and this one passes its own on, would end it at once.
  void stop() const;
  /// What it has written so far.
  std::string out() const;
  std::string err() const;

 private:
  void close_files();

  pid_t process_ = -1;
  int out_ = -1, err_ = -1;  ///< files in memory
  std::optional<int> code_;
};

}  // namespace heed
