#include "tools/heed/report/evaluation_report.h"

#include <cmath>

namespace heed {
namespace {

std::string percent(double fraction) { return fmt::format("{:.2f} %", 100 * fraction); }

// Formats a number of nats; "" if it is unknown.
std::string nats(double x) { return std::isnan(x) ? "" : fmt::format("{:.4f}", x); }

}  // namespace

void add_evaluation(Out& out, const lab::Evaluation& e, const lab::Task& task) {
  const lab::TaskInfo& info = task.info();
  out.set("loss", e.loss);
  out.set("optimal_loss", e.optimal);
  out.set("accuracy", e.accuracy);
  out.set("standard_error", e.standard_error);
  Value references = Value::object();
  for (const auto& [name, loss] : e.references) references.append(name, loss);
  out.set("references", references);
  out.set("expected_optimal_loss", info.optimal);
  out.set("expected_references", info.references);
  out.set("expected_accuracy_references", info.accuracy_references);
  out.set("eval_sequences", e.sequences);
  out.set("eval_tokens", e.tokens);
  out.set("evaluation_set", task.evaluation_size());
  out.set("perplexity", e.text.perplexity);
  out.set("bits_per_character", e.text.bits_per_character);
  out.set("bits_per_byte", e.text.bits_per_byte);
  std::vector<Cells> rows{{"loss", fmt::format("{:.4f}", e.loss), ""}};
  if (e.optimal) rows.push_back({"best possible (Bayes)", nats(*e.optimal), nats(info.optimal)});
  for (const auto& [name, loss] : e.references) {
    const auto expected = info.references.find(name);
    rows.push_back(
        {name, nats(loss), expected == info.references.end() ? "" : nats(expected->second)});
  }
  if (e.optimal && e.standard_error)
    rows.push_back({"above best possible", nats(e.loss - *e.optimal), ""});
  if (e.standard_error) rows.push_back({"standard error", nats(*e.standard_error), ""});
  if (e.accuracy) rows.push_back({info.accuracy, percent(*e.accuracy), ""});
  const std::string token = info.vocabulary.unit() == lab::Unit::kWord ? "word" : "character";
  if (e.text.perplexity) {
    rows.push_back({"perplexity per " + token, nats(*e.text.perplexity), ""});
    rows.push_back({"bits per character", nats(*e.text.bits_per_character), ""});
    rows.push_back({"bits per byte", nats(*e.text.bits_per_byte), ""});
  }
  for (const auto& [name, share] : info.accuracy_references)
    rows.push_back({name, "", percent(share)});
  out.gap();
  out.table({"nats per token", "measured", "in expectation"}, rows);
  const std::string set =
      e.sequences < task.evaluation_size()
          ? fmt::format("the first {} of {} sequences", with_commas(e.sequences),
                        with_commas(task.evaluation_size()))
          : counted(e.sequences, "sequence");
  out.text("measured on {}, {}{}", set, counted(e.tokens, "target"),
           e.text.perplexity ? fmt::format("; a token is a {}", token) : "");
  if (const double guessing = std::log(double(info.classes)); e.loss > 1.5 * guessing)
    out.text("the loss is FAR ABOVE {:.4f}, that of equal probabilities for all tokens", guessing);
}

}  // namespace heed
