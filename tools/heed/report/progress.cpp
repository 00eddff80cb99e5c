#include "tools/heed/report/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <system_error>

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

Progress::Progress(bool quiet, double silence)
    : quiet_(quiet), terminal_(at_terminal()), silence_(silence) {
  const char* no_color = std::getenv("NO_COLOR");
  color_ = terminal_ && !(no_color && *no_color);
  if (quiet_) return;
  try {
    heart_ = std::jthread([this](const std::stop_token& stop) { beat(stop); });
  } catch (const std::system_error&) {  // no thread to be had: training goes on, silent at times
  }
}

Progress::~Progress() {
  heart_.request_stop();
  if (heart_.joinable()) heart_.join();
  wipe();
}

void Progress::beat(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    wake_.wait_for(lock, stop, std::chrono::seconds(1), [] { return false; });
    const double now = clock_.seconds();
    if (stop.stop_requested() || now_.empty() || now - said_at_ < silence_ + 1) continue;
    put_now(now_ + "  (" + std::to_string(std::int64_t(now - now_since_)) + " s)");
  }
}

bool Progress::is_due() const {
  const std::lock_guard lock(mutex_);
  return !quiet_ && clock_.seconds() - said_at_ > (terminal_ ? 0.1 : silence_);
}

void Progress::at_work(const std::string& text) {
  const bool due = is_due();
  const std::lock_guard lock(mutex_);
  now_ = text, now_since_ = clock_.seconds();
  if (due) put_now(text);
}

// At a terminal over the live line, else as a line.
void Progress::put_now(const std::string& text) {
  put(terminal_ ? "\r\033[K" + text.substr(0, terminal_width() - 1) : text + "\n");
  std::fflush(stderr);
  shown_ = terminal_;
  said_at_ = clock_.seconds();
}

void Progress::wipe() {
  if (shown_) put("\r\033[K");
  shown_ = false;
}

void Progress::clear() {
  const std::lock_guard lock(mutex_);
  wipe();
  now_.clear();
}

void Progress::line(const std::string& text) {
  if (quiet_) return;
  const std::lock_guard lock(mutex_);
  wipe();
  put(text + "\n");
  said_at_ = clock_.seconds();
}

void Progress::warn(const std::string& text) {
  const std::lock_guard lock(mutex_);
  wipe();
  put(color_ ? "\033[31m" + text + "\033[0m\n" : text + "\n");
  said_at_ = clock_.seconds();
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

bool InterruptGuard::interrupted() { return interrupt_seen != 0; }

void InterruptGuard::check() const {
  if (interrupted()) throw Interrupted();
}

}  // namespace heed
