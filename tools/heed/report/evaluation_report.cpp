#include "tools/heed/report/evaluation_report.h"

#include <cmath>

namespace heed {
namespace {

std::string percent(double fraction) { return fmt::format("{:.2f} %", 100 * fraction); }

constexpr Column kTable[] = {
    {"", "nats per token"}, {"", "measured", "", "{:.4f}"}, {"", "in expectation", "", "{:.4f}"}};

}  // namespace

void add_evaluation(Report& report, const nn::Evaluation& e, const nn::Task& task) {
  const nn::TaskInfo& info = task.info();
  report.set("loss", e.loss);
  report.set("optimal_loss", e.optimal);
  report.set("accuracy", e.accuracy);
  report.set("standard_error", e.standard_error);
  Value references = Value::object();
  for (const auto& [name, loss] : e.references) references.append(name, loss);
  report.set("references", references);
  report.set("expected_optimal_loss", info.optimal);
  report.set("expected_references", info.references);
  report.set("expected_accuracy_references", info.accuracy_references);
  report.set("eval_sequences", e.sequences);
  report.set("eval_tokens", e.tokens);
  report.set("evaluation_set", task.evaluation_size());
  report.set("perplexity", e.text.perplexity);
  report.set("bits_per_character", e.text.bits_per_character);
  report.set("bits_per_byte", e.text.bits_per_byte);
  Table& table = report.text_table(kTable);
  const auto known = [](double x) { return std::isfinite(x) ? Value(x) : Value(""); };
  table.add({"loss", with_nan(e.loss), ""});
  if (e.optimal) table.add({"best possible (Bayes)", *e.optimal, known(info.optimal)});
  for (const auto& [name, loss] : e.references) {
    const auto expected = info.references.find(name);
    table.add({name, loss, known(expected == info.references.end() ? NAN : expected->second)});
  }
  if (e.optimal && e.standard_error) table.add({"above best possible", e.loss - *e.optimal, ""});
  if (e.standard_error) table.add({"standard error", *e.standard_error, ""});
  if (e.accuracy) table.add({info.accuracy, percent(*e.accuracy), ""});
  const std::string token = info.vocabulary.unit() == nn::Unit::kWord ? "word" : "character";
  if (e.text.perplexity) {
    table.add({"perplexity per " + token, *e.text.perplexity, ""});
    table.add({"bits per character", *e.text.bits_per_character, ""});
    table.add({"bits per byte", *e.text.bits_per_byte, ""});
  }
  for (const auto& [name, share] : info.accuracy_references) table.add({name, "", percent(share)});
  const std::string set =
      e.sequences < task.evaluation_size()
          ? fmt::format("the first {} of {} sequences", with_commas(e.sequences),
                        with_commas(task.evaluation_size()))
          : counted(e.sequences, "sequence");
  table.note = fmt::format("measured on {}, {}{}", set, counted(e.tokens, "target"),
                           e.text.perplexity ? fmt::format("; a token is a {}", token) : "");
  if (const double guessing = std::log(double(info.classes)); e.loss > 1.5 * guessing)
    table.note += fmt::format(
        "\nthe loss is FAR ABOVE {:.4f}, that of equal probabilities for all tokens", guessing);
}

}  // namespace heed
