// Progress of long commands on stderr, and handling of Ctrl-C and other signals.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace heed {

/// Measures the seconds since its construction.
class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Prints lines to stderr and, at a terminal, one live line below them that is overwritten. While
/// an activity runs, a thread prints its text again from time to time, so that output never pauses
/// for more than ten seconds. If stderr is closed (its terminal was closed), printing has no effect
/// and training continues. If the environment variable HEED_PROGRESS is "lines", progress has the
/// form for files, and is printed once a second. Only one thread may use an object.
class Progress {
 public:
  /// If `quiet` is set, only warnings are printed. `silence` is the number of seconds between
  /// progress lines if stderr is not a terminal.
  explicit Progress(bool quiet, double silence = 8);
  ~Progress();
  Progress(const Progress&) = delete;

  /// Returns true if at_work() would print now: at a terminal ten times a second, elsewhere after
  /// `silence` seconds without output.
  bool is_due() const;
  /// Sets the current activity, which lasts until clear(), and prints it if it is due. At a
  /// terminal the text becomes the live line, shortened to the terminal's width. Elsewhere it is
  /// printed as a permanent line.
  void at_work(const std::string& text);
  /// Prints a permanent line, unless the object is quiet.
  void line(const std::string& text);
  /// Prints a permanent line, even if the object is quiet. Control characters are escaped. At a
  /// terminal the line is red, unless the environment variable NO_COLOR is set.
  void warn(const std::string& text);

  /// Ends the current activity and removes the live line.
  void clear();

 private:
  void put_activity(const std::string& text);
  void wipe();                               // removes the live line
  void repeat(const std::stop_token& stop);  // body of repeater_

  bool quiet_, terminal_, color_, shown_ = false;
  double silence_;
  Stopwatch clock_;
  std::string activity_;                         // text of at_work(), "" after clear()
  double activity_start_ = 0, last_output_ = 0;  // seconds of clock_
  mutable std::mutex mutex_;                     // protects all output and the members above
  std::condition_variable_any wake_;
  std::jthread repeater_;
};

/// Handles signals during its lifetime. Ctrl-C (SIGINT), SIGTERM and SIGHUP (the terminal was
/// closed) only set a flag. A second SIGINT, or a second SIGTERM, ends the program immediately. If
/// nohup has disabled SIGHUP, it stays ignored. SIGPIPE is ignored from the construction on, even
/// after the lifetime. Therefore a training does not end if progress is written to a closed pipe,
/// and writing results to a closed pipe fails with an error.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  /// Returns true if one of the signals has arrived since the construction.
  static bool interrupted();
};

}  // namespace heed
