#include "nn/run/run_result.h"

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

std::optional<double> number_of(const Json& json, std::string_view key) {
  const Json& value = value_of(json, key);
  return value == Json() ? std::nullopt : std::optional(value.number());
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
  RunResult result{.steps = count_of(json, "steps"),
                   .loss = value_of(json, "loss").number(),
                   .optimal = number_of(json, "optimal_loss"),
                   .accuracy = number_of(json, "accuracy"),
                   .standard_error = number_of(json, "standard_error"),
                   .sequences = count_of(json, "eval_sequences"),
                   .targets = count_of(json, "eval_tokens"),
                   .seconds = number_of(json, "seconds")};
  if (!json.find("weights_checksum")) return result;
  result.evaluation_set = count_of(json, "evaluation_set");
  result.weights_checksum = value_of(json, "weights_checksum").text();
  return result;
}

}  // namespace heed::nn
