// What the user sees of a long command on stderr, and how Ctrl-C reaches it.
#pragma once

#include <chrono>
#include <string>

namespace heed {

/// Seconds since it was made.
class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Lines on stderr and, at a terminal, one live line below them. A stderr that is gone (its
/// terminal was closed) stops no training.
class Progress {
 public:
  explicit Progress(bool quiet);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;

  /// Whether a live line would be seen now: at a terminal, ten times a second.
  bool wants_live() const;
  /// Replaces the live line; what is wider than the terminal is cut.
  void live(const std::string& text);
  /// What a long command does now: live at a terminal, elsewhere a line every five seconds.
  void at_work(const std::string& text);
  /// A line that stays; nothing under --quiet.
  void line(const std::string& text);
  /// A line that stays and is shown under --quiet too; red at a terminal unless NO_COLOR is set.
  void warn(const std::string& text);

  /// Removes the live line.
  void clear();

 private:
  bool quiet_, terminal_, color_, shown_ = false;
  Stopwatch clock_;
  double last_live_ = -1;
};

/// While it lives, Ctrl-C (SIGINT), SIGTERM and SIGHUP (the terminal was closed) only set a flag; a
/// second SIGINT or SIGTERM ends the program as usual. Under nohup SIGHUP stays ignored. SIGPIPE is
/// ignored from then on: what nobody reads ends no training, and results get an error when written.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  bool interrupted() const;
};

}  // namespace heed
