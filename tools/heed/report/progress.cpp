#include "tools/heed/report/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string_view>

namespace heed {
namespace {

volatile std::sig_atomic_t interrupt_seen = 0;

void on_interrupt(int) { interrupt_seen = 1; }

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
  fmt::print(stderr, "\r\033[K{}", text.substr(0, terminal_width() - 1));
  std::fflush(stderr);
  shown_ = true;
  last_live_ = clock_.seconds();
}

void Progress::clear() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

void Progress::line(const std::string& text) {
  if (quiet_) return;
  clear();
  fmt::print(stderr, "{}\n", text);
}

void Progress::warn(const std::string& text) {
  clear();
  fmt::print(stderr, "{}{}{}\n", color_ ? "\033[31m" : "", text, color_ ? "\033[0m" : "");
}

InterruptGuard::InterruptGuard() {
  interrupt_seen = 0;
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = int(SA_RESETHAND | SA_RESTART);  // the second one kills
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

InterruptGuard::~InterruptGuard() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

bool InterruptGuard::interrupted() const { return interrupt_seen != 0; }

}  // namespace heed
