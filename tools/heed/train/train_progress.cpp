#include "tools/heed/train/train_progress.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "autograd/base/parallel.h"
#include "tools/heed/report/output.h"

namespace heed {
namespace {

constexpr std::size_t kColumns = 80;

// The fields two blanks apart, as many as fit.
std::string fitted(const std::vector<std::string>& fields) {
  std::string line;
  for (const std::string& field : fields) {
    if (field.empty()) continue;
    const std::string with = line.empty() ? field : line + "  " + field;
    if (with.size() <= kColumns) line = with;
  }
  return line;
}

// "3.0e-3", not "3.0e-03".
std::string without_zeros(std::string text) {
  const std::size_t e = text.find('e');
  if (e == std::string::npos) return text;
  const std::size_t digits = e + 2;  // after the sign
  text.erase(digits, std::min(text.find_first_not_of('0', digits), text.size() - 1) - digits);
  return text;
}

// At most 7 characters.
std::string short_text(double x) {
  return std::abs(x) < 99.99 ? fmt::format("{:.4f}", x) : without_zeros(fmt::format("{:.1e}", x));
}

std::string loss_text(double loss, double optimal) {
  const double above = loss - optimal;
  const std::string sign = above < 0 ? "" : "+";
  return short_text(loss) + (std::isfinite(above) ? " (" + sign + short_text(above) + ")" : "");
}

std::string left_text(double seconds) {
  return std::isfinite(seconds) ? short_duration(seconds) + " left" : "";
}

std::string rate_text(double tokens_per_s) {
  std::string text = si_text(tokens_per_s);
  std::erase(text, ' ');
  return tokens_per_s > 0 ? text + " tok/s" : "";
}

std::string range_text(const std::vector<double>& x) {
  if (x.empty()) return "-";
  const auto [least, most] = std::minmax_element(x.begin(), x.end());
  return fmt::format("{:.1e}..{:.1e}", *least, *most);
}

}  // namespace

std::string step_line(const StepState& s) {
  return fitted({fmt::format("{}/{}", s.report.step, s.steps),
                 "loss " + loss_text(s.report.loss, s.optimal),
                 "lr " + without_zeros(fmt::format("{:.1e}", s.report.lr)),
                 "grad " + short_text(s.report.grad_norm), left_text(s.seconds_left),
                 rate_text(s.tokens_per_s)});
}

std::string evaluation_line(const nn::Evaluation& e, const nn::TaskFacts& facts,
                            const StepState& s) {
  const double optimal = e.optimal.value_or(std::numeric_limits<double>::quiet_NaN());
  return fitted({fmt::format("step {:>5}/{}", s.report.step, s.steps),
                 "eval " + loss_text(e.loss, optimal),
                 e.accuracy ? fmt::format("{} {:.2f} %", facts.accuracy, 100 * *e.accuracy) : "",
                 left_text(s.seconds_left), rate_text(s.tokens_per_s)});
}

std::vector<std::string> start_lines(nn::Trainer& t) {
  const nn::RunConfig& c = t.config();
  const int threads = autograd::num_threads();
  return {fitted({fmt::format("  {} parameters", with_commas(nn::count_parameters(t.model))),
                  fmt::format("{} steps of {} x {} tokens", c.steps, c.batch, c.model.context),
                  fmt::format("seed {}", c.seed),
                  fmt::format("{} thread{}", threads, threads == 1 ? "" : "s")})};
}

std::vector<std::string> evaluation_facts(const nn::Evaluation& e, const nn::Task& task) {
  const std::int64_t all = task.evaluation_size();
  const bool whole = e.sequences == all;
  std::vector<std::string> lines = {
      whole
          ? fmt::format("  evaluated on all {} evaluation sequences", with_commas(all))
          : fmt::format("  evaluated on the first {} of {} evaluation sequences, at the end on all",
                        with_commas(e.sequences), with_commas(all))};
  if (e.optimal)
    lines.push_back(
        fmt::format("  best possible loss there {:.4f}; in parentheses: above it", *e.optimal));
  std::string others;
  for (const auto& [name, loss] : e.references) {
    const std::string other = fmt::format("{} {:.4f}", name, loss);
    if (!others.empty() && others.size() + 2 + other.size() > kColumns) {
      lines.push_back(others);
      others.clear();
    }
    others += "  " + other;
  }
  if (!others.empty()) lines.push_back(others);
  return lines;
}

std::string audit_table(const std::vector<nn::ParameterAudit>& audit) {
  std::string table = fmt::format("{:<32} {:<14} {:>10} {:>10} {:>10}\n", "parameter", "shape",
                                  "|g|", "|w|", "|dw|/|w|");
  for (const nn::ParameterAudit& p : audit) {
    std::ostringstream shape;
    shape << p.shape;
    const std::string gradient = p.gradient ? fmt::format("{:.3e}", *p.gradient) : "none";
    table += fmt::format("{:<32} {:<14} {:>10} {:>10.3e} {:>10.3e}{}\n", p.name, shape.str(),
                         gradient, p.weight, p.ratio(), p.in_trouble() ? "  !" : "");
  }
  return table;
}

std::string audit_line(const std::vector<nn::ParameterAudit>& audit) {
  std::vector<double> gradients, ratios;
  for (const nn::ParameterAudit& p : audit) {
    if (p.in_trouble()) continue;
    gradients.push_back(*p.gradient);
    if (std::isfinite(p.ratio())) ratios.push_back(p.ratio());
  }
  return fmt::format("{} of {} parameters learn: |g| {}, |dw|/|w| {}", gradients.size(),
                     audit.size(), range_text(gradients), range_text(ratios));
}

}  // namespace heed
