#include "nn/run/run_result.h"

#include <limits>
#include <utility>

#include "nn/io/json.h"

namespace heed::nn {

namespace {

const Json& value_of(const Json& json, std::string_view key) {
  if (const Json* value = json.find(key)) return *value;
  throw JsonError("lacks the key `" + std::string(key) + "`");
}

std::int64_t count_of(const Json& json, std::string_view key) {
  const auto* count = value_of(json, key).as<std::uint64_t>();
  if (!count || !std::in_range<std::int64_t>(*count))
    throw JsonError("needs a count as `" + std::string(key) + "`");
  return std::int64_t(*count);
}

// Returns the number `key`. Throws JsonError unless it is finite and in [0, most].
double number_of(const Json& json, std::string_view key, double most) {
  const double number = value_of(json, key).number();
  if (!(number >= 0 && number <= most))
    throw JsonError("`" + std::string(key) + "` is out of range");
  return number;
}

std::optional<double> number_or_null(const Json& json, std::string_view key,
                                     double most = std::numeric_limits<double>::max()) {
  if (value_of(json, key) == Json()) return {};
  return number_of(json, key, most);
}

}  // namespace

RunResult run_result(const Evaluation& e, const Task& task, std::int64_t steps) {
  return {.steps = steps,
          .loss = e.loss,
          .optimal = e.optimal,
          .accuracy = e.accuracy,
          .standard_error = e.standard_error,
          .sequences = e.sequences,
          .targets = e.tokens,
          .evaluation_set = task.evaluation_size()};
}

// All keys but the last are those of `heed train --json`.
std::string to_json(const RunResult& r) {
  return Json::object({{"steps", r.steps},
                       {"loss", r.loss},
                       {"optimal_loss", r.optimal},
                       {"accuracy", r.accuracy},
                       {"standard_error", r.standard_error},
                       {"eval_sequences", r.sequences},
                       {"eval_tokens", r.targets},
                       {"evaluation_set", r.evaluation_set},
                       {"seconds", r.seconds},
                       {"weights_checksum", r.weights_checksum}})
             .dump() +
         "\n";
}

RunResult parse_run_result(std::string_view text) {
  const Json json = Json::parse(text);
  return {.steps = count_of(json, "steps"),
          .loss = number_of(json, "loss", std::numeric_limits<double>::max()),
          .optimal = number_or_null(json, "optimal_loss"),
          .accuracy = number_or_null(json, "accuracy", 1),
          .standard_error = number_or_null(json, "standard_error"),
          .sequences = count_of(json, "eval_sequences"),
          .targets = count_of(json, "eval_tokens"),
          .evaluation_set = count_of(json, "evaluation_set"),
          .seconds = number_or_null(json, "seconds"),
          .weights_checksum = value_of(json, "weights_checksum").text()};
}

}  // namespace heed::nn
