// Runs heed as a child process.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace heed {

/// A process of heed with these arguments, without a launcher's variables, in a process group of
/// its own: Ctrl-C at the terminal reaches it by stop() only. It is stopped when this process is
/// killed.
class Worker {
 public:
  /// IoError if the system starts no more processes.
  explicit Worker(const std::vector<std::string>& arguments);
  /// Stops it, and waits for its end.
  ~Worker();
  Worker(const Worker&) = delete;

  /// Returns the exit code, or 128 + the signal that killed the process; nothing while it runs.
  std::optional<int> ended();
  /// Sends SIGHUP: heed train saves and ends. It may get several of them. A second SIGTERM, as
  /// where one goes to all processes and this process forwards its own, would end it at once.
  void stop() const;
  // The text that the process has written so far.
  std::string out() const;
  std::string err() const;

 private:
  void close_files();

  pid_t process_ = -1;
  int out_ = -1, err_ = -1;  ///< files in memory
  std::optional<int> code_;
};

}  // namespace heed
