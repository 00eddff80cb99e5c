// Runs heed as a child process.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace heed {

/// A child process that runs heed. It has a separate process group, so Ctrl-C at the terminal does
/// not reach it; stop() stops it. If the parent process is killed, the child receives SIGHUP.
class Worker {
 public:
  /// Starts the process with these arguments. Throws IoError if the system cannot start it.
  explicit Worker(const std::vector<std::string>& arguments);
  /// Stops the process and waits for its end.
  ~Worker();
  Worker(const Worker&) = delete;

  /// Returns the exit code, or 128 + the signal's number if a signal killed the process. Returns
  /// nothing while the process runs.
  std::optional<int> ended();
  /// Sends SIGHUP, after which `heed train` saves the run and ends. `heed train` may receive SIGHUP
  /// several times. SIGTERM is not sent, because a second SIGTERM would end the process before it
  /// has saved, and the system may have sent the first one to all processes.
  void stop() const;
  /// Returns the text that the process has written to stdout so far.
  std::string out() const;
  /// Returns the text that the process has written to stderr so far.
  std::string err() const;

 private:
  void close_files();

  pid_t process_ = -1;
  int out_ = -1, err_ = -1;  // files in memory that receive stdout and stderr
  std::optional<int> code_;
};

}  // namespace heed
