// Runs heed as a child process.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace heed {

/// A child process that runs heed. Its environment does not contain the variables of a launcher. It
/// has a separate process group, so Ctrl-C at the terminal does not reach it; stop() stops it. If
/// this process is killed, the child receives SIGHUP.
class Worker {
 public:
  /// Starts the process with these arguments. Throws IoError if the system cannot start it.
  explicit Worker(const std::vector<std::string>& arguments);
  /// Stops the process and waits for its end.
  ~Worker();
  Worker(const Worker&) = delete;

  /// Returns the exit code, or 128 + signal if a signal killed the process; nothing while it runs.
  std::optional<int> ended();
  /// Sends SIGHUP, after which heed train saves and ends. It may receive SIGHUP several times. A
  /// second SIGTERM would end it at once, for example if a system sends SIGTERM to all processes
  /// and this process sends another one.
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
