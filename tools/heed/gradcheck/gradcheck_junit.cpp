// `heed gradcheck --junit`: writes the results as JUnit XML, which CI services read.
#include <fmt/format.h>

#include "tools/heed/gradcheck/gradcheck.h"
#include "tools/plot/text.h"

namespace heed {

using autograd::CheckResult;
using plot::xml_text;

std::string junit_xml(const CheckResults& results, double seconds,
                      const GradcheckRequest& request) {
  std::string cases;
  std::int64_t tests = 0, failures = 0, skipped = 0;
  for (const CheckResult& r : results)
    for (int order = 1; order <= r.order; ++order, ++tests) {
      cases += fmt::format("<testcase classname=\"{}\" name=\"{}, {}, order {}\">\n",
                           xml_text(r.check), xml_text(r.sample), layout_name(r.layout), order);
      const std::string why_not =
          order > r.report.order && r.skipped.empty() ? "order 1 failed" : std::string(r.skipped);
      if (!why_not.empty()) {
        ++skipped;
        cases += fmt::format("<skipped message=\"{}\"/>\n", xml_text(why_not));
      } else {
        if (order == r.report.order && !r.report.ok()) {
          ++failures;
          cases += fmt::format("<failure message=\"{}\"/>\n", xml_text(r.report.message));
        }
        cases += fmt::format("<system-out>{}</system-out>\n",
                             xml_text(findings_text(r, order, request)));
      }
      cases += "</testcase>\n";
    }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"heed "
      "gradcheck\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" "
      "time=\"{:.3f}\">\n{}</testsuite>\n</testsuites>\n",
      tests, failures, skipped, seconds, cases);
}

}  // namespace heed
