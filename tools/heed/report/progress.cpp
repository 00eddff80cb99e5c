#include "tools/heed/report/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "tools/heed/report/output.h"
#include "tools/plot/text.h"

namespace heed {
namespace {

volatile std::sig_atomic_t interrupt_seen = 0;

void on_interrupt(int) { interrupt_seen = 1; }

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

// Returns true if the signal is SIGHUP and is ignored, because nohup started the program.
bool is_ignored_hangup(int signal) {
  struct sigaction now {};
  return signal == SIGHUP && sigaction(SIGHUP, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

constexpr const char* kWipe = "\r\033[K";

bool at_terminal() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && term && std::string_view(term) != "dumb";
}

std::size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

Progress::Progress(bool quiet, double silence)
    : quiet_(quiet), terminal_(at_terminal()), silence_(silence) {
  const char* no_color = std::getenv("NO_COLOR");
  if (const char* form = std::getenv("HEED_PROGRESS"); form && std::string_view(form) == "lines")
    terminal_ = false, silence_ = std::min(silence_, 1.0);
  color_ = terminal_ && !(no_color && *no_color);
  if (quiet_) return;
  try {
    repeater_ = std::jthread([this](const std::stop_token& stop) { repeat(stop); });
  } catch (const std::system_error&) {  // without a thread, activities are not printed again
  }
}

Progress::~Progress() {
  repeater_.request_stop();
  if (repeater_.joinable()) repeater_.join();
  wipe();
}

void Progress::repeat(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    wake_.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; });
    const double now = clock_.seconds();
    if (stop.stop_requested() || activity_.empty() || now - last_output_ < silence_ + 1) continue;
    put_activity(activity_ + "  (" + std::to_string(Index(now - activity_start_)) + " s)");
  }
}

bool Progress::is_due() const {
  const std::lock_guard lock(mutex_);
  return !quiet_ && clock_.seconds() - last_output_ > (terminal_ ? 0.1 : silence_);
}

void Progress::at_work(const std::string& text) {
  const bool due = is_due();
  const std::lock_guard lock(mutex_);
  activity_ = text, activity_start_ = clock_.seconds();
  if (due) put_activity(text);
}

// Prints the activity: at a terminal it replaces the live line, elsewhere it is a new line.
void Progress::put_activity(const std::string& text) {
  if (terminal_) {
    const std::string line = plot::visible_text(text);  // without line breaks and tabs
    std::size_t end = std::min(terminal_width() - 1, line.size());
    while (end < line.size() && (line[end] & 0xC0) == 0x80) --end;  // not inside a character
    std::fputs(kWipe, stderr);
    put_text(stderr, line.substr(0, end));
  } else {
    put_text(stderr, text + "\n");
  }
  std::fflush(stderr);
  shown_ = terminal_;
  last_output_ = clock_.seconds();
}

void Progress::wipe() {
  if (shown_) std::fputs(kWipe, stderr);
  shown_ = false;
}

void Progress::clear() {
  const std::lock_guard lock(mutex_);
  wipe();
  activity_.clear();
}

void Progress::line(const std::string& text) {
  if (quiet_) return;
  const std::lock_guard lock(mutex_);
  wipe();
  put_text(stderr, text + "\n");
  last_output_ = clock_.seconds();
}

void Progress::warn(const std::string& text) {
  const std::lock_guard lock(mutex_);
  wipe();
  if (color_) std::fputs("\033[31m", stderr);
  put_text(stderr, text + (color_ ? "" : "\n"));
  if (color_) std::fputs("\033[0m\n", stderr);
  last_output_ = clock_.seconds();
}

InterruptGuard::InterruptGuard() {
  interrupt_seen = 0;
  std::signal(SIGPIPE, SIG_IGN);
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  for (const int signal : kSignals) {
    // SA_RESETHAND lets the second signal end the program. SIGHUP does not use it, because a closed
    // terminal causes two SIGHUPs: one from its shell and one from the kernel.
    action.sa_flags = SA_RESTART | (signal == SIGHUP ? 0 : int(SA_RESETHAND));
    if (!is_ignored_hangup(signal)) sigaction(signal, &action, nullptr);
  }
}

InterruptGuard::~InterruptGuard() {
  for (const int signal : kSignals)
    if (!is_ignored_hangup(signal))  // a terminal's second SIGHUP may arrive after this destructor
      std::signal(signal, signal == SIGHUP && interrupted() ? SIG_IGN : SIG_DFL);
}

bool InterruptGuard::interrupted() { return interrupt_seen != 0; }

}  // namespace heed
