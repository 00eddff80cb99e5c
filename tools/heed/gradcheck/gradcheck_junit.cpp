#include "tools/heed/gradcheck/gradcheck_junit.h"

#include <fmt/format.h>

#include <algorithm>

#include "autograd/base/utf8.h"

namespace heed {
namespace {

// The characters of XML 1.0, section 2.2.
bool xml_has(char32_t c) {
  return c == '\t' || c == '\n' || c == '\r' || (c >= 0x20 && c < 0xfffe) || c > 0xffff;
}

std::string xml_text(std::string_view text) {
  std::string escaped;
  for (std::size_t at = 0; at < text.size();) {
    const std::optional<char32_t> c = autograd::next_code_point(text, at);
    if (!c) ++at;  // a byte that is not UTF-8
    if (c == U'&')
      escaped += "&amp;";
    else if (c == U'<')
      escaped += "&lt;";
    else if (c == U'>')
      escaped += "&gt;";
    else if (c == U'"')
      escaped += "&quot;";
    else
      escaped += autograd::to_utf8(c && xml_has(*c) ? *c : U'\ufffd');
  }
  return escaped;
}

}  // namespace

std::string junit_xml(std::string_view suite, double seconds, const std::vector<JunitCase>& cases) {
  const auto count = [&](std::string JunitCase::*why) {
    return std::ranges::count_if(cases, [&](const JunitCase& c) { return !(c.*why).empty(); });
  };
  std::string xml = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"{}\" "
      "tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" time=\"{:.3f}\">\n",
      xml_text(suite), cases.size(), count(&JunitCase::failure), count(&JunitCase::skipped),
      seconds);
  for (const JunitCase& c : cases) {
    xml += fmt::format("<testcase classname=\"{}\" name=\"{}\">\n", xml_text(c.classname),
                       xml_text(c.name));
    if (!c.failure.empty()) xml += fmt::format("<failure message=\"{}\"/>\n", xml_text(c.failure));
    if (!c.skipped.empty()) xml += fmt::format("<skipped message=\"{}\"/>\n", xml_text(c.skipped));
    if (!c.output.empty()) xml += fmt::format("<system-out>{}</system-out>\n", xml_text(c.output));
    xml += "</testcase>\n";
  }
  return xml + "</testsuite>\n</testsuites>\n";
}

}  // namespace heed
