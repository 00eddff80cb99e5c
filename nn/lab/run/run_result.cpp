#include "nn/lab/run/run_result.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "nn/io/json.h"

namespace heed::lab {

namespace {

// Calls f(key, member) for each member. The keys are those of `heed train --json`.
template <class Result, class F>
void visit(Result& r, F f) {
  f("steps", r.steps), f("loss", r.loss), f("optimal_loss", r.optimal);
  f("accuracy", r.accuracy), f("standard_error", r.standard_error);
  f("eval_sequences", r.sequences), f("eval_tokens", r.targets);
  f("evaluation_set", r.evaluation_set), f("seconds", r.seconds);
}

void read(const Json& json, const std::string& key, Index& value) {
  const auto* count = json.as<std::uint64_t>();
  if (!count || !std::in_range<Index>(*count))
    throw JsonError(fmt::format("`{}` is {}, needs a whole number >= 0", key, json.dump(true)));
  value = Index(*count);
}
void read(const Json& json, const std::string& key, double& value) {
  value = json.number();
  if (!(value >= 0 && value <= (key == "accuracy" ? 1 : std::numeric_limits<double>::max())))
    throw JsonError(fmt::format("`{}` is {}, needs {}", key, value,
                                key == "accuracy" ? "0 to 1" : "a finite number >= 0"));
}
void read(const Json& json, const std::string& key, std::optional<double>& value) {
  if (json != Json()) read(json, key, value.emplace());
}

}  // namespace

std::string to_json(const RunResult& result) {
  Json json = Json::object();
  visit(result, [&](const char* key, const auto& value) { json.append(key, value); });
  return json.dump() + "\n";
}

RunResult parse_run_result(std::string_view text) {
  const Json json = Json::parse(text);
  RunResult result;
  visit(result, [&](const std::string& key, auto& value) {
    const Json* found = json.find(key);
    if (!found) throw JsonError("lacks the key `" + key + "`");
    read(*found, key, value);
  });
  return result;
}

}  // namespace heed::lab
