// What the user sees of a long command on stderr, and how Ctrl-C reaches it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

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

/// Lines on stderr and, at a terminal, one live line below them. While something is at work,
/// neither kind is silent for ten seconds: a thread says again what it is. A stderr that is gone
/// (its terminal was closed) stops no training. To be used by one thread.
class Progress {
 public:
  /// `silence`: seconds between plain lines.
  explicit Progress(bool quiet, double silence = 8);
  ~Progress();
  Progress(const Progress&) = delete;

  /// Whether at_work() would be seen now: at a terminal ten times a second, elsewhere after the
  /// seconds of silence.
  bool is_due() const;
  /// What a long command does now, until clear(): live at a terminal, cut to its width; elsewhere a
  /// line, if it is due.
  void at_work(const std::string& text);
  /// A line that stays; nothing under --quiet.
  void line(const std::string& text);
  /// A line that stays and is shown under --quiet too; red at a terminal unless NO_COLOR is set.
  void warn(const std::string& text);

  /// Removes the live line: nothing is at work.
  void clear();

 private:
  void put_now(const std::string& text);
  void wipe();
  void beat(const std::stop_token& stop);

  bool quiet_, terminal_, color_, shown_ = false;
  double silence_;
  Stopwatch clock_;
  std::string now_;                     // at work
  double now_since_ = 0, said_at_ = 0;  // by clock_
  mutable std::mutex mutex_;            // of all that is written
  std::condition_variable_any wake_;
  std::jthread heart_;
};

/// The user wants no more of it.
struct Interrupted {};

/// While it lives, Ctrl-C (SIGINT), SIGTERM and SIGHUP (the terminal was closed) only set a flag; a
/// second SIGINT or SIGTERM ends the program as usual. Under nohup SIGHUP stays ignored. SIGPIPE is
/// ignored from then on: what nobody reads ends no training, and results get an error when written.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  static bool interrupted();
  /// Throws Interrupted if it is: in the middle of long work.
  void check() const;
};

}  // namespace heed
