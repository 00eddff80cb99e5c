#include "tools/heed/report/output.h"

#include <unistd.h>

#include <cmath>

#include "nn/lab/train/build.h"
#include "tools/plot/text.h"

namespace heed {

namespace {
std::string error_prefix, kept_command;
}

ExitCode code_of(const autograd::Error& error) {
  if (dynamic_cast<const autograd::NumericError*>(&error)) return kNumeric;
  if (dynamic_cast<const autograd::IoError*>(&error)) return kInputOutput;
  return dynamic_cast<const CheckError*>(&error) ? kCheckFailed : kUsage;
}

std::string with_options(std::string_view text) {
  std::string out;
  while (true) {
    const std::size_t begin = text.find('`');
    const std::size_t end = begin == text.npos ? begin : text.find('`', begin + 1);
    if (end == text.npos) return out + std::string(text);
    const std::string_view key = text.substr(begin + 1, end - begin - 1);
    const bool is_key =
        key.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_") == key.npos && !key.empty();
    out += text.substr(0, begin);
    out += is_key ? "--" : "`";
    for (const char c : key) out += is_key && c == '_' ? '-' : c;
    text.remove_prefix(is_key ? end + 1 : end);  // if no key ends at `end`, one may begin there
  }
}

void put_text(std::FILE* stream, std::string_view text) {
  std::string visible;
  if (::isatty(::fileno(stream)) != 0) {
    for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end) {
      if (end = text.find_first_of("\n\t", begin); end == begin)
        visible += text[end++];
      else
        visible += plot::visible_text(text.substr(begin, end - begin));
    }
    text = visible;
  }
  std::fwrite(text.data(), 1, text.size(), stream);
}

void set_error_prefix(const std::string& prefix) { error_prefix = prefix; }

void print_error(std::string_view text) {
  std::string line = "heed: " + error_prefix;
  for (const char c : with_options(text)) line += c == '\n' || c == '\r' ? ' ' : c;
  std::fflush(stdout);
  put_text(stderr, line + "\n");
}

namespace {

// Returns the word as it is typed in a shell: in single quotes if it contains special characters.
std::string shell_word(const std::string& word) {
  constexpr const char* kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./:=,+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

}  // namespace

void remember_command(int argc, char** argv) {
  kept_command = "heed";
  for (int i = 1; i < argc; ++i) kept_command += " " + shell_word(argv[i]);
}

const std::string& typed_command() { return kept_command; }

std::string version_text() {
  return HEED_VERSION " (" + lab::compiler_text() + ", SIMD target " + lab::simd_target_text() +
         ")";
}

std::string with_commas(Index n) {
  std::string digits = std::to_string(n);
  for (std::ptrdiff_t i = std::ssize(digits) - 3; i > (n < 0 ? 1 : 0); i -= 3)
    digits.insert(std::size_t(i), ",");
  return digits;
}

std::string counted(Index n, std::string_view noun) {
  return fmt::format("{} {}{}", with_commas(n), noun, n == 1 ? "" : "s");
}

std::string si_text(double n) {
  const char* units[] = {"", " k", " M", " G", " T", " P"};
  std::size_t unit = 0;
  for (; std::abs(n) >= 999.5 && unit + 1 < std::size(units); ++unit) n /= 1000;
  return unit == 0 ? fmt::format("{:.0f}", n) : fmt::format("{:.3g}{}", n, units[unit]);
}

std::string bytes_text(double bytes) {
  const std::string text = si_text(bytes);
  return text + (text.find(' ') == std::string::npos ? " B" : "B");
}

std::string seconds_text(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "?";
  if (seconds < 9.95) return fmt::format("{:.1f} s", seconds);
  const auto s = std::llround(seconds);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {} s", s / 60, s % 60);
  return fmt::format("{} h {} min", s / 3600, s % 3600 / 60);
}

std::string short_duration(double seconds) {
  constexpr long long kMinute = 60, kHour = 60 * kMinute, kDay = 24 * kHour;
  if (!(seconds >= 0) || seconds >= 9999.0 * kDay) return "?";
  if (seconds < 9.95) return fmt::format("{:.1f}s", seconds);
  const auto s = std::llround(seconds);
  if (s < kMinute) return fmt::format("{}s", s);
  if (s < kHour) return fmt::format("{}m{:02}s", s / kMinute, s % kMinute);
  if (s < kDay) return fmt::format("{}h{:02}m", s / kHour, s % kHour / kMinute);
  if (s < 100 * kDay) return fmt::format("{}d{}h", s / kDay, s % kDay / kHour);
  return fmt::format("{}d", s / kDay);
}

}  // namespace heed
