#include "tools/heed/report/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace heed {
namespace {

volatile std::sig_atomic_t interrupt_seen = 0;

void on_interrupt(int) { interrupt_seen = 1; }

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};

// nohup's wish.
bool is_ignored_hangup(int signal) {
  struct sigaction now {};
  return signal == SIGHUP && sigaction(SIGHUP, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

// Not fmt::print, which throws where stderr is gone.
void put(const std::string& text) { std::fputs(text.c_str(), stderr); }

bool at_terminal() {
  const char* term = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && term && std::string_view(term) != "dumb";
}

std::size_t terminal_width() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

Progress::Progress(bool quiet) : quiet_(quiet), terminal_(at_terminal()) {
  const char* no_color = std::getenv("NO_COLOR");
  color_ = terminal_ && !(no_color && *no_color);
}

bool Progress::wants_live() const {
  return terminal_ && !quiet_ && clock_.seconds() - last_live_ > 0.1;
}

void Progress::live(const std::string& text) {
  if (!terminal_ || quiet_) return;
  put("\r\033[K" + text.substr(0, terminal_width() - 1));
  std::fflush(stderr);
  shown_ = true;
  last_live_ = clock_.seconds();
}

void Progress::at_work(const std::string& text) {
  constexpr double kQuietSeconds = 5;
  if (wants_live()) return live(text);
  if (terminal_ || clock_.seconds() - std::max(last_live_, 0.0) < kQuietSeconds) return;
  line(text);
  last_live_ = clock_.seconds();
}

void Progress::clear() {
  if (shown_) put("\r\033[K");
  shown_ = false;
}

void Progress::line(const std::string& text) {
  if (quiet_) return;
  clear();
  put(text + "\n");
}

void Progress::warn(const std::string& text) {
  clear();
  put(color_ ? "\033[31m" + text + "\033[0m\n" : text + "\n");
}

InterruptGuard::InterruptGuard() {
  interrupt_seen = 0;
  std::signal(SIGPIPE, SIG_IGN);
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  for (const int signal : kSignals) {
    // The second one kills; but a closed terminal sends two SIGHUPs, its shell's and the kernel's.
    action.sa_flags = SA_RESTART | (signal == SIGHUP ? 0 : int(SA_RESETHAND));
    if (!is_ignored_hangup(signal)) sigaction(signal, &action, nullptr);
  }
}

InterruptGuard::~InterruptGuard() {
  for (const int signal : kSignals)
    if (!is_ignored_hangup(signal))  // a terminal's second SIGHUP may come after the end, too
      std::signal(signal, signal == SIGHUP && interrupted() ? SIG_IGN : SIG_DFL);
}

bool InterruptGuard::interrupted() const { return interrupt_seen != 0; }

}  // namespace heed
